"""Explanations: why ops of a plan have the strategies that they have, and what others would do.

Records beside a plan, outside its id.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.errors import InvalidInput, PlanError
from meshwright.schema.mesh import Axis
from meshwright.schema.model import Document, Model, Ns

# chosen        what the plan has
# slower        the best plan with it has a larger objective
# simpler       the best plan with it is a little cheaper and less simple, or its step is longer
# does not fit  no plan with it was found that keeps the memory
# not allowed   a pin or a constraint of the request leaves it out
# not solved    the time was over before
Verdict = Literal["chosen", "slower", "simpler", "does not fit", "not allowed", "not solved"]


class Whole(Model):
    """What the judge says of a whole plan, or of one stage of it: as of `Cost`, per step."""

    step_ns: Ns
    objective_ns: Ns
    compute_ns: Ns
    communication_ns: dict[str, float]
    exposed_ns: dict[str, float]
    memory_bytes: int = Field(ge=0)


class Alternative(Model):
    """A strategy that ops could have.

    compute_ns, communication_ns: of one of the ops alone over a step, and of what it moves by
    itself. output_bytes: of what it makes, on one device in one microbatch. whole: of the best plan
    in which all of them have it. least_ns: no such plan has a smaller objective; equal to that of
    `whole` where that is proved. others: how many other ops then have another strategy than now.
    why: how it falls short.
    """

    strategy: dict[str, tuple[Axis, ...]]
    partial: dict[Axis, int] = Field(default_factory=dict)
    followers: tuple[Axis, ...] = ()
    verdict: Verdict
    why: str
    compute_ns: Ns
    communication_ns: Ns
    output_bytes: int = Field(ge=0)
    whole: Whole | None = None
    least_ns: Ns | None = None
    others: int | None = None


class PinPrice(Model):
    """What a pin of these ops costs. whole: of the best plan without it, where one was found."""

    pin: str
    whole: Whole | None = None
    why: str


class ExplainedOps(Model):
    """Ops that are alike and have one strategy. label: of all their names; alternatives: the
    chosen one first, then by their objective, then those that were not solved."""

    label: str
    ops: tuple[str, ...]
    kind: str
    rule: str | None
    alternatives: tuple[Alternative, ...]
    pins: tuple[PinPrice, ...] = ()


class MemoryPrice(Model):
    """What the limit of memory costs: no plan on the mesh has a smaller objective than
    `without_ns`, had the device as much memory as it liked; None where nobody knows."""

    used_bytes: int
    capacity_bytes: int
    binds: bool
    without_ns: Ns | None
    why: str


class Explanation(Document):
    """Why ops of one stage of a plan have their strategies.

    whole: the plan as it is, by the same judge; of a pipeline only this stage, alone. Every
    alternative is searched again on the plan's mesh with the ops held at it and all others free.
    seconds: how long that was allowed to take. notes: what it does not say.
    """

    prefix: ClassVar[str] = "why"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = 1
    plan: str
    glob: str
    stage: int
    whole: Whole
    memory: MemoryPrice
    groups: tuple[ExplainedOps, ...]
    complete: bool
    seconds: float
    notes: tuple[str, ...] = ()
