"""Moves: what it costs to get to a plan from the one that a job runs, and when that pays."""

from __future__ import annotations

from pydantic import Field

from meshwright.schema.model import Model, Ns, Whole

DEFAULT_STEPS = 10_000  # chosen: hours of most jobs; who knows how long it goes on says so


class MoveChoice(Model):
    """A plan that a job could go on with.

    memory_bytes: on the fullest device. moved_bytes, move_ns: of parameters and optimizer states,
    from where they are. total_ns: all steps that are left, and the move. why: it is no choice.
    """

    name: str
    step_ns: Ns | None = None
    memory_bytes: int | None = None
    moved_bytes: int | None = None
    move_ns: Ns | None = None
    total_ns: Ns | None = None
    why: str = ""


class PlanMove(Model):
    """From which plan, and what was to choose from: the plan itself, then the others.

    steps: so many are left. pays_after_steps: from then on the plan is ahead of the one that keeps
    the degrees; None where there is no such plan, or the plan is that one.
    """

    from_plan: str
    from_devices: int = Field(ge=1)
    from_step_ns: Ns
    from_memory_bytes: int
    steps: Whole = Field(ge=1)
    choices: tuple[MoveChoice, ...]
    pays_after_steps: int | None = None
