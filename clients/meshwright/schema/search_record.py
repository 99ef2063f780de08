"""Record of a search: what found the plan, its bounds, and what else was considered."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from meshwright.schema.model import Model, Number
from meshwright.schema.request_patch import RequestPatch


class Finding(Model):
    """An improvement: a search found a cheaper plan."""

    search: str = Field(description="The search.")
    mesh: str = Field(description="The mesh of the plan.")
    cost_ns: Number = Field(description="The objective of the plan, in nanoseconds.")


class Considered(Model):
    """A configuration that the search considered."""

    configuration: str = Field(description="The configuration, as text.")
    estimated_ns: Number = Field(description="The estimated objective, in nanoseconds.")
    cost_ns: Number | None = Field(
        default=None,
        description="The objective of its plan, in nanoseconds. None if the configuration was not "
        "planned.",
    )
    memory_bytes: int | None = Field(
        default=None,
        description="The memory of the device with the highest peak, including the reserve, in "
        "bytes. It is that of the plan, an estimate without a plan, or a lower bound if the "
        "configuration does not fit.",
    )
    on_front: bool = Field(
        default=False,
        description="Whether the configuration is on the Pareto front of time and memory.",
    )
    why: str = Field(description="The reason for which the configuration was not chosen.")
    request_patch: RequestPatch | None = Field(
        default=None,
        description=(
            "The change of the plan's request, as a JSON Merge Patch (RFC 7396), with which the "
            "search plans this configuration alone. None where a request cannot state the "
            "configuration, and in plans of earlier versions."
        ),
    )


class Search(Model):
    """The search that found the plan, with its bounds.

    All costs are objectives in nanoseconds. The bounds hold for all plans over the listed meshes.
    """

    found_by: str = Field(description="The search that found this plan.")
    outcome: Literal["optimal", "feasible"] = Field(
        description="`optimal` if the cheapest plan found is proved optimal, otherwise `feasible`."
    )
    cost_ns: Number = Field(description="The objective of the plan.")
    lower_bound_ns: Number = Field(
        description="A lower bound on the objective of every plan over `meshes`."
    )
    gap: Number = Field(
        description="The difference between `cost_ns` and `lower_bound_ns`, relative to `cost_ns`."
    )
    meshes: tuple[str, ...] = Field(description="The meshes that were searched.")
    history: tuple[Finding, ...] = Field(
        default=(), description="The improvements, in the order in which they were found."
    )
    considered: tuple[Considered, ...] = Field(
        default=(),
        description="The other pipeline configurations, best first, including all on the Pareto "
        "front.",
    )
    faster_ns: Number = Field(
        default=0.0,
        description="The objective that this plan adds to the cheapest plan for a shorter step.",
    )
    simplicity_ns: Number = Field(
        default=0.0,
        description="The objective that this plan adds to the cheapest plan for simplicity.",
    )
    step_bound_ns: Number | None = Field(
        default=None,
        description="A lower bound on the step time of every configuration that the request "
        "allows, planned or not. None if no bound is proved.",
    )
    unrestricted_ns: Number | None = Field(
        default=None,
        description="The step time of the fastest plan that a search without the target found in "
        "the rest of the time, in nanoseconds. None without a target, or if there was no time.",
    )
