"""Costly ops: the groups of equal ops that take most time of a plan."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from meshwright.schema.errors import InvalidInput, PlanError
from meshwright.schema.mesh import Axis
from meshwright.schema.model import Document, Model, Ns


class CostlyOps(Model):
    """A group of ops that repeat each other, with one strategy."""

    ops: str = Field(description="A pattern of the names of the ops.")
    glob: str = Field(
        description="The glob that selects them for an explanation; the first op alone if the "
        "group is in several stages."
    )
    count: int = Field(ge=1, description="The number of ops.")
    kind: str = Field(description="The kind of the ops.")
    strategy: dict[str, tuple[Axis, ...]] = Field(
        description="The mesh axes of each factor of the rule."
    )
    compute_ns: Ns = Field(description="The compute time of all of them, in nanoseconds a step.")
    communication_ns: Ns = Field(
        description="The time of their collectives and redistributions, in nanoseconds a step."
    )
    share: float = Field(ge=0, le=1, description="The share of the time of all ops, 0 to 1.")


class CostliestOps(Document):
    """The costliest groups of ops of a plan, longest first."""

    prefix: ClassVar[str] = "view"
    error: ClassVar[type[InvalidInput]] = PlanError

    plan: str = Field(description="The id of the plan.")
    groups: tuple[CostlyOps, ...] = Field(description="The groups.")
