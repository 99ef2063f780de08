"""The schedule of a finished plan: when each pipeline rank runs each pass, in closed form.

    begin     the wait of the first stage for parameters, before its first pass
    passes    in the order of the schedule, each once its inputs are there
    end       reduction of gradients and optimizer update, after the last pass of the rank
    bubble    the rest of the step, in which the rank waits for other ranks

The durations are those of the plan's `passes` and `receives`, so that the last rank ends at the
plan's `cost.step_ns`, and the bubble of the rank that works longest is its `cost.bubble_ns`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from meshwright.schedules.kinds import schedule
from meshwright.schedules.schedule import ScheduleTable, stages_on
from meshwright.schema import Plan, PlanError
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.pipeline.pipeline_cost import durations_of, transfers_of
from meshwright_solver.pipeline.schedule_run import ScheduleTimeline, run

ROUNDING_NS = 1e-3  # chosen: less than any wait


@dataclass(frozen=True, slots=True)
class PlanSchedule:
    """The timeline of a plan's schedule. Times are in ns after the begin of the step.

    begin_ns: of the first stage. end_ns: by rank, the time after its passes.
    """

    timeline: ScheduleTimeline
    begin_ns: float
    end_ns: tuple[float, ...]

    @staticmethod
    def of(plan: Plan) -> PlanSchedule:
        """Raises PlanError for a plan without a pipeline schedule."""
        stated, passes = plan.schedule, [stage.passes for stage in plan.stages]
        known = [each for each in passes if each is not None]
        if stated is None or len(known) < len(passes):
            raise PlanError("the plan has no pipeline schedule. Use a plan of several stages")
        table = schedule(stated.kind, stated.ranks, plan.microbatches, stated.stages_per_rank)
        transfer_ns = transfers_of([stage.receives for stage in plan.stages])
        ends = [
            sum(known[stage].step_ns for stage in stages_on(table.rank_of, rank))
            for rank in range(table.ranks)
        ]
        timeline = run(table, durations_of(known, transfer_ns))
        return PlanSchedule(timeline, known[0].begin_ns, tuple(ends))

    @property
    def table(self) -> ScheduleTable:
        return self.timeline.schedule

    @property
    def ns(self) -> float:
        """The time of the step."""
        return max(self._ends_ns())

    @property
    def bubble_share(self) -> float:
        """The bubble's share of the step, over all ranks."""
        ranks = range(self.table.ranks)
        return sum(self.bubble_ns(rank) for rank in ranks) / (self.table.ranks * self.ns)

    def passes(self, rank: int) -> tuple[IntArray, FloatArray, FloatArray]:
        """The actions of a rank as rows (stage, pass, microbatch), their starts and ends."""
        table, bounds = self.table.table
        own = slice(int(bounds[rank]), int(bounds[rank + 1]))
        starts, ends = self.timeline.starts[own], self.timeline.ends[own]
        return table[own], self.begin_ns + starts, self.begin_ns + ends

    def waits_ns(self, rank: int) -> float:
        """The wait of a rank for parameters, before its first pass."""
        return self.begin_ns if self.table.rank_of[0] == rank else 0.0

    def bubble_ns(self, rank: int) -> float:
        """The time of the step in which a rank waits for other ranks."""
        busy = self.waits_ns(rank) + self.timeline.busy_ns(rank) + self.end_ns[rank]
        return max(0.0, self.ns - busy)

    def bubbles(self, rank: int) -> FloatArray:
        """(intervals, 2) Start and end of every wait of a rank for other ranks."""
        _, starts, ends = self.passes(rank)
        begins = np.concatenate([[self.waits_ns(rank)], ends[:-1], [ends[-1] + self.end_ns[rank]]])
        gaps = np.stack([begins, np.append(starts, self.ns)], axis=1)
        waits: FloatArray = gaps[gaps[:, 1] - gaps[:, 0] > ROUNDING_NS]
        return waits

    def _ends_ns(self) -> Iterator[float]:
        for rank, end_ns in enumerate(self.end_ns):
            yield float(self.passes(rank)[2][-1]) + end_ns
