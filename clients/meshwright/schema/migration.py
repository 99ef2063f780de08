"""Migrations: the cost and the benefit of moving a job from its current plan to another one."""

from __future__ import annotations

from pydantic import Field

from meshwright.schema.model import Model, Ns, Whole

DEFAULT_STEPS = 10_000  # chosen: hours of most jobs


class MoveChoice(Model):
    """A plan with which a job could continue."""

    name: str = Field(description="The name of the choice.")
    step_ns: Ns | None = Field(default=None, description="The time of a step, in nanoseconds.")
    memory_bytes: int | None = Field(
        default=None, description="The peak memory of the device with the highest peak, in bytes."
    )
    moved_bytes: int | None = Field(
        default=None,
        description="The parameters and optimizer states that move between devices, in bytes.",
    )
    move_ns: Ns | None = Field(default=None, description="The time of the move, in nanoseconds.")
    total_ns: Ns | None = Field(
        default=None, description="The time of the move and of all remaining steps, in nanoseconds."
    )
    why: str = Field(
        default="",
        description="The reason for which the plan is not an option. Empty if it is one.",
    )


class PlanMove(Model):
    """The migration of a job from its current plan."""

    from_plan: str = Field(description="The id of the current plan.")
    from_devices: int = Field(ge=1, description="The number of devices of the current plan.")
    from_step_ns: Ns = Field(description="The time of a step of the current plan, in nanoseconds.")
    from_memory_bytes: int = Field(
        description="The peak memory of a device under the current plan, in bytes."
    )
    steps: Whole = Field(ge=1, description="The number of remaining steps.")
    choices: tuple[MoveChoice, ...] = Field(
        description="The plans that were compared: this plan first."
    )
    pays_after_steps: int | None = Field(
        default=None,
        description="The number of steps after which this plan is ahead of the one that keeps the "
        "degrees. None if there is no such plan, or if this plan is that one.",
    )
