"""The schedule view: the passes of every pipeline rank over a step, in closed form."""

from __future__ import annotations

from pydantic import BaseModel, Field

from meshwright.schedules.schedule import Pass, stages_on
from meshwright.schema import Plan, ScheduleKind
from meshwright_solver.pipeline.plan_schedule import PlanSchedule


class RankPasses(BaseModel):
    """A step of a device of one pipeline rank.

    The times `begin_ns`, `passes_ns`, `end_ns` and `bubble_ns` add up to the step.
    """

    rank: int = Field(description="The pipeline rank.")
    stages: tuple[int, ...] = Field(description="The numbers of the stages of the rank.")
    begin_ns: float = Field(
        description="The wait for parameters before the first pass, from the begin of the step."
    )
    passes_ns: float = Field(description="The time of all passes.")
    end_ns: float = Field(
        description="The reduction of gradients and the optimizer update after the last pass."
    )
    bubble_ns: float = Field(description="The time that the rank waits for other ranks.")
    bubble_share: float = Field(description="The bubble's share of the step, 0 to 1.")
    stage: tuple[int, ...] = Field(description="By pass, its stage.")
    passes: str = Field(
        description="By pass, a letter: F (forward), B (backward), or I and W (backward for inputs "
        "and for weights)."
    )
    microbatch: tuple[int, ...] = Field(description="By pass, its microbatch.")
    starts_ns: tuple[float, ...] = Field(description="By pass, its start.")
    ends_ns: tuple[float, ...] = Field(description="By pass, its end.")
    bubbles_ns: tuple[tuple[float, float], ...] = Field(
        description="Start and end of every wait for other ranks; they add up to `bubble_ns`."
    )


class PlanPasses(BaseModel):
    """The schedule of a plan over one step. Times are in nanoseconds after the begin of the step.

    A plan of one stage has no schedule and no ranks.
    """

    plan: str = Field(description="The id of the plan.")
    kind: ScheduleKind | None = Field(description="The name of the schedule. None: one stage.")
    microbatches: int = Field(description="The number of microbatches of a step.")
    step_ns: float = Field(description="The time of the step.")
    bubble_share: float = Field(description="The bubble's share of the step over all ranks.")
    ranks: tuple[RankPasses, ...] = Field(description="The pipeline ranks.")


def passes_of(plan: Plan) -> PlanPasses:
    """The schedule view of a plan document."""
    if plan.schedule is None:
        return PlanPasses(
            plan=plan.id,
            kind=None,
            microbatches=plan.microbatches,
            step_ns=plan.cost.step_ns,
            bubble_share=0.0,
            ranks=(),
        )
    made = PlanSchedule.of(plan)
    return PlanPasses(
        plan=plan.id,
        kind=plan.schedule.kind,
        microbatches=plan.microbatches,
        step_ns=made.ns,
        bubble_share=made.bubble_share,
        ranks=tuple(_rank(made, rank) for rank in range(made.table.ranks)),
    )


def _rank(made: PlanSchedule, rank: int) -> RankPasses:
    rows, starts, ends = made.passes(rank)
    stage, what, microbatch = rows.T.tolist()
    bubble_ns = made.bubble_ns(rank)
    return RankPasses(
        rank=rank,
        stages=tuple(stages_on(made.table.rank_of, rank)),
        begin_ns=made.waits_ns(rank),
        passes_ns=made.timeline.busy_ns(rank),
        end_ns=made.end_ns[rank],
        bubble_ns=bubble_ns,
        bubble_share=bubble_ns / made.ns,
        stage=tuple(stage),
        passes="".join(Pass(each).name for each in what),
        microbatch=tuple(microbatch),
        starts_ns=tuple(starts.round(3).tolist()),
        ends_ns=tuple(ends.round(3).tolist()),
        bubbles_ns=tuple((start, end) for start, end in made.bubbles(rank).round(3).tolist()),
    )
