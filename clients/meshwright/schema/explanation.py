"""Explanations: the reasons for the strategies of ops, and the cost of alternatives.

An explanation is not part of a plan's id.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.errors import InvalidInput, PlanError
from meshwright.schema.mesh import Axis
from meshwright.schema.model import Document, Model, Ns

# chosen        the strategy of the plan
# slower        the best plan with it has a larger objective
# simpler       the best plan with it is slightly cheaper and less simple, or its step is longer
# does not fit  no plan with it fits in memory
# not allowed   a pin or a constraint of the request excludes it
# not solved    the time limit was reached before
Verdict = Literal["chosen", "slower", "simpler", "does not fit", "not allowed", "not solved"]


class Whole(Model):
    """The cost of a whole plan or of one of its stages, as in `Cost`, per step."""

    step_ns: Ns = Field(description="The time of a step in nanoseconds.")
    objective_ns: Ns = Field(description="The objective in nanoseconds.")
    compute_ns: Ns = Field(description="The compute time in nanoseconds.")
    communication_ns: dict[str, float] = Field(
        description="The communication time in nanoseconds, by traffic."
    )
    exposed_ns: dict[str, float] = Field(
        description="The communication time that computation does not hide, in nanoseconds, by "
        "traffic."
    )
    memory_bytes: int = Field(ge=0, description="The peak memory of a device, in bytes.")


class Alternative(Model):
    """An alternative strategy of a group of ops."""

    strategy: dict[str, tuple[Axis, ...]] = Field(
        description="The mesh axes of each factor of the rule."
    )
    partial: dict[Axis, int] = Field(
        default_factory=dict,
        description="The axes whose partial sums pass through the op, with the position of the "
        "first partial input.",
    )
    followers: tuple[Axis, ...] = Field(
        default=(), description="The axes on factors that other factors follow."
    )
    verdict: Verdict = Field(description="The result for the best plan with this strategy.")
    why: str = Field(description="The reason for the verdict.")
    compute_ns: Ns = Field(
        description="The compute time of one of the ops, in nanoseconds per step."
    )
    communication_ns: Ns = Field(
        description="The time of the collectives inside one of the ops, in nanoseconds per step."
    )
    output_bytes: int = Field(
        ge=0,
        description="The size of the outputs of one op on one device in one microbatch, in bytes.",
    )
    whole: Whole | None = Field(
        default=None,
        description="The cost of the best plan in which all ops of the group have this strategy.",
    )
    least_ns: Ns | None = Field(
        default=None,
        description="A lower bound on the objective of every such plan, in nanoseconds. It equals "
        "that of `whole` if `whole` is proved optimal.",
    )
    others: int | None = Field(
        default=None,
        description="The number of other ops whose strategy differs from the current plan.",
    )


class PinPrice(Model):
    """The cost of a pin."""

    pin: str = Field(description="The pin.")
    whole: Whole | None = Field(
        default=None, description="The cost of the best plan without the pin, if a plan was found."
    )
    why: str = Field(description="The result in a sentence.")


class ExplainedOps(Model):
    """A group of equal ops that have one strategy."""

    label: str = Field(description="A pattern of the names of the ops.")
    ops: tuple[str, ...] = Field(description="The names of the ops.")
    kind: str = Field(description="The kind of the ops.")
    rule: str | None = Field(description="The sharding rule. None if the kind is unknown.")
    factors: dict[str, str] = Field(
        default_factory=dict,
        description="The dim that an axis on each factor of the rule cuts, in words.",
    )
    alternatives: tuple[Alternative, ...] = Field(
        description="The chosen strategy, then the others by objective, then those without a "
        "solution."
    )
    pins: tuple[PinPrice, ...] = Field(default=(), description="The cost of each pin on the ops.")


class MemoryPrice(Model):
    """The cost of the memory limit."""

    used_bytes: int = Field(description="The peak memory of the plan on a device, in bytes.")
    capacity_bytes: int = Field(description="The memory of the device, in bytes.")
    binds: bool = Field(description="Whether the limit excludes a cheaper plan.")
    without_ns: Ns | None = Field(
        description="A lower bound on the objective of every plan on the mesh without a memory "
        "limit, in nanoseconds. None if unknown."
    )
    why: str = Field(description="The result in a sentence.")


class Explanation(Document):
    """An explanation of the strategies of ops in one stage of a plan.

    The explainer solves each alternative on the plan's mesh. It fixes the ops of the group and
    leaves all others free.
    """

    prefix: ClassVar[str] = "why"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    plan: str = Field(description="The id of the plan.")
    glob: str = Field(description="The glob that selects the ops.")
    stage: int = Field(description="The number of the stage.")
    whole: Whole = Field(
        description="The cost of the current plan. For a pipeline it is the cost of this stage "
        "alone."
    )
    memory: MemoryPrice = Field(description="The cost of the memory limit.")
    groups: tuple[ExplainedOps, ...] = Field(description="The groups of ops.")
    complete: bool = Field(description="Whether every alternative was solved.")
    seconds: float = Field(description="The time limit in seconds.")
    notes: tuple[str, ...] = Field(
        default=(), description="The limitations of the explanation, in sentences."
    )
