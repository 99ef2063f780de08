"""The length of a schedule, extrapolated from runs of few microbatches.

Once every rank has work, a schedule is periodic: each further microbatch adds the same time, at
least that of the busiest rank. Two runs of few microbatches give this time. The length is an
estimate, since the first rounds of uneven stages differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from meshwright.schedules.kinds import schedule
from meshwright.schedules.schedule import ScheduleTable
from meshwright_costmodel.collectives import NS_PER_S
from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.pipeline.schedule_run import Durations, step_ns

# chosen: microbatches a rank in the two runs; `zb_v` is periodic from two on
_FEW, _MORE = 2, 3
_ACTIONS_PER_S = 3e7  # measured: one core, `passes.run`


@dataclass(frozen=True, slots=True)
class Pace:
    """The length of one schedule as a function of durations.

    runs: the schedule with few microbatches and with some more, or with all.
    """

    microbatches: int
    runs: tuple[ScheduleTable, ...]

    @property
    def is_split(self) -> bool:
        return self.runs[0].is_split

    @property
    def run_ns(self) -> float:
        """The approximate run time of `step_ns` itself."""
        return sum(len(run.table[0]) for run in self.runs) / _ACTIONS_PER_S * NS_PER_S

    def step_ns(self, durations: Durations, once: FloatArray) -> float:
        """The time of a step. once: (stages,), ns of work at the end of the step."""
        steps_ns = [step_ns(run, durations, once) for run in self.runs]
        if len(steps_ns) == 1:
            return steps_ns[0]
        few, more = self.runs
        each_ns = (steps_ns[1] - steps_ns[0]) / (more.microbatches - few.microbatches)
        # the first rounds can be faster than the rank that works longest
        work = durations.forward + durations.inputs + durations.weights
        each_ns = max(each_ns, float(np.bincount(more.rank_of, work).max()))
        return steps_ns[1] + each_ns * (self.microbatches - more.microbatches)


@lru_cache(maxsize=256)  # chosen: the configurations of a request; 7 MB for 128 ranks
def pace_of(kind: str, ranks: int, microbatches: int, stages_per_rank: int) -> Pace:
    """The pace of a schedule."""
    counts = [ranks * rounds for rounds in (_FEW, _MORE)]
    if microbatches <= counts[-1]:
        counts = [microbatches]
    runs = [schedule(kind, ranks, count, stages_per_rank) for count in counts]
    return Pace(microbatches, tuple(runs))
