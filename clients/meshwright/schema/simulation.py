"""Simulations: a plan's step as events on streams. A simulation is not part of a plan's id."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.errors import InvalidInput, PlanError
from meshwright.schema.model import Document, Model, Ns, Number

Waited = Literal["activation", "parameter", "gradient", "host", "pipeline"]


class LinkUse(Model):
    """The use of one link of a device in a simulated step."""

    link: str = Field(
        description="The level of the topology, or `pipeline` for transfers to other stages."
    )
    busy_ns: Ns = Field(description="The time of its communication, hidden or not.")
    exposed_ns: Ns = Field(description="The part of it that compute waits for.")


class RankStep(Model):
    """A simulated step of a device of one pipeline rank.

    The times `compute_ns`, `exposed_ns` and `bubble_ns` add up to the step.
    """

    rank: int = Field(description="The pipeline rank.")
    stages: tuple[int, ...] = Field(description="The numbers of the stages of the rank.")
    compute_ns: Ns = Field(description="The compute time in nanoseconds.")
    exposed_ns: dict[Waited, Number] = Field(
        description="The time in nanoseconds that compute waits for communication, by traffic. "
        "`pipeline`: transfers between stages. `host`: transfers to hosts and work on hosts."
    )
    bubble_ns: Ns = Field(
        description="The time that the rank waits for other ranks, in nanoseconds."
    )
    communication_ns: dict[Waited, Number] = Field(
        description="The time of communication in nanoseconds, hidden or not, by traffic."
    )
    static_bytes: int = Field(
        description="The parameters, gradients, optimizer states and transfer buffers, in bytes."
    )
    saved_bytes: int = Field(description="The maximum of saved activations, in bytes.")
    working_bytes: int = Field(description="The maximum of other transient memory, in bytes.")
    peak_bytes: int = Field(description="The peak memory, in bytes.")
    peak_ns: Ns = Field(
        description="The time of the first peak, in nanoseconds after the start of the step."
    )
    capacity_bytes: int = Field(description="The memory of the device, in bytes.")
    links: tuple[LinkUse, ...] = Field(
        default=(), description="The links of the device that are used, slowest first."
    )


class Exposure(Model):
    """The exposed time of one group of collectives, over a step and all ranks."""

    name: str = Field(description="The name of the op or tensor.")
    what: str = Field(description="The data that moves.")
    traffic: Waited = Field(description="The kind of the traffic.")
    waited_ns: Ns = Field(description="The time that compute waited, in nanoseconds.")
    ns: Ns = Field(description="The time of the collectives, in nanoseconds.")


class Simulation(Document):
    """A simulation of a plan's step, task by task."""

    prefix: ClassVar[str] = "sim"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    plan: str = Field(description="The id of the plan.")
    step_ns: Ns = Field(description="The simulated time of a step, in nanoseconds.")
    predicted_ns: Ns = Field(
        description="The time of a step in the plan, in closed form, in nanoseconds."
    )
    tasks: int = Field(ge=0, description="The number of simulated tasks.")
    ranks: tuple[RankStep, ...] = Field(description="The steps of the pipeline ranks.")
    exposures: tuple[Exposure, ...] = Field(
        default=(), description="The collectives with the longest exposed time, longest first."
    )
