"""Peak memory of a pipeline's ranks.

During a pass of a stage, its rank has the saved activations of earlier passes of all its stages,
and the peak of this pass (`meshwright_solver.evaluation.memory`). Buffers of transfers count all
the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meshwright.schedules.schedule import Pass, ScheduleTable, stages_on
from meshwright.schema import MemoryUse, Moment
from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.evaluation.memory.memory_use import UPDATE, at_fullest, beside
from meshwright_solver.pipeline.stage_cost import StageCost


@dataclass(frozen=True, slots=True)
class RankPeaks:
    """Peak memory of ranks and stages. costs: of every stage, with the moments of its passes."""

    schedule: ScheduleTable
    costs: Sequence[StageCost]

    def moments(self, stage: int) -> tuple[Moment, ...]:
        """The peak of each pass of a stage, and that of the update."""
        rank = self.schedule.rank_of[stage]
        moments = self._moments(rank, stages_on(self.schedule.rank_of, rank))
        return (*(moment for (other, _), moment in moments.items() if other == stage), UPDATE)

    def of_stage(self, stage: int) -> MemoryUse:
        """The memory of a stage at its position, without other stages of its rank."""
        return self._use([stage])

    def of_rank(self, rank: int) -> MemoryUse:
        """The memory of all stages of a rank together."""
        return self._use(stages_on(self.schedule.rank_of, rank))

    def _use(self, stages: Sequence[int]) -> MemoryUse:
        rank = self.schedule.rank_of[stages[0]]
        memories = [self.costs[stage].cost.memory_bytes for stage in stages]
        resting = MemoryUse(
            parameters=sum(memory.parameters for memory in memories),
            gradients=sum(memory.gradients for memory in memories),
            optimizer=sum(memory.optimizer for memory in memories),
            activations=round(self.schedule.most_held(rank, *self._held(stages))),
            reserved=memories[0].reserved,
            capacity=memories[0].capacity,
            host=sum(memory.host for memory in memories),
            host_capacity=memories[0].host_capacity,
        )
        moments = self._moments(rank, stages).values()
        return at_fullest(resting, max(moments, key=lambda moment: moment.total))

    def _held(self, stages: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """(stages,): saved and waiting bytes of one microbatch, zero for other stages."""
        saved, waiting = np.zeros((2, self.schedule.stages))
        for stage in stages:
            saved[stage] = self.costs[stage].saved_bytes
            waiting[stage] = self.costs[stage].waiting_bytes
        return saved, waiting

    def _moments(self, rank: int, stages: Sequence[int]) -> dict[tuple[int, Pass], Moment]:
        """The peak of the rank during each pass, by stage and pass, of these stages alone."""
        buffers = sum(self.costs[stage].moments.buffers_bytes for stage in stages)
        before = self.schedule.held_before(rank, *self._held(stages))
        most: dict[tuple[int, Pass], float] = {}
        for action, held in zip(self.schedule.orders[rank], before.tolist(), strict=True):
            if action.stage in stages:
                key = action.stage, action.what
                most[key] = max(most.get(key, 0.0), held)
        moments = {}
        for (stage, what), held in most.items():
            moment = self.costs[stage].moments.passes[_PASS[what]]
            moments[stage, what] = beside(moment, max(0, round(held) - moment.before), buffers)
        return moments


_PASS = {Pass.F: 0, Pass.B: 1, Pass.I: 1, Pass.W: 2}
