"""The timeline of a schedule: each rank in its order, each action once its inputs are there.

The forward pass of a stage needs that of the stage before. Its backward pass needs that of the
stage behind and its own forward pass. Inputs from another rank also take a transfer; transfers over
a link in one direction are sequential.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshwright.schedules.schedule import Action, Pass, ScheduleTable
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.compilation import njit


@dataclass(frozen=True, slots=True)
class Durations:
    """Durations of passes by stage, in ns; a whole backward pass takes both halves.

    transfer: (2, stages - 1), from a stage to the next, and of gradients back.
    """

    forward: FloatArray
    inputs: FloatArray
    weights: FloatArray
    transfer: FloatArray

    def of(self, what: Pass) -> FloatArray:
        if what is Pass.B:
            return self.inputs + self.weights
        return (self.forward, self.inputs, self.inputs, self.weights)[what]


@dataclass(frozen=True, slots=True)
class ScheduleTimeline:
    """The timeline of a schedule. starts, ends: ns, in the order of `schedule.table`."""

    schedule: ScheduleTable
    starts: FloatArray
    ends: FloatArray

    @property
    def ns(self) -> float:
        """From the first action to the end of the last."""
        return float(self.ends.max())

    def busy_ns(self, rank: int) -> float:
        first, last = self.schedule.table[1][rank : rank + 2]
        return float((self.ends[first:last] - self.starts[first:last]).sum())

    def bubble_ns(self, rank: int) -> float:
        """The time of the step in which a rank waits."""
        return self.ns - self.busy_ns(rank)

    def of_rank(self, rank: int) -> list[tuple[Action, float, float]]:
        """The actions of a rank with their starts and ends."""
        first, last = self.schedule.table[1][rank : rank + 2]
        times = zip(self.starts[first:last].tolist(), self.ends[first:last].tolist(), strict=True)
        actions = self.schedule.orders[rank]
        return [(action, start, end) for action, (start, end) in zip(actions, times, strict=True)]


class DeadlockError(ValueError):
    """A schedule in which a rank waits for an input that never arrives."""


def run(schedule: ScheduleTable, durations: Durations) -> ScheduleTimeline:
    """The timeline of a schedule. Raises DeadlockError, but for no schedule of `schedules`."""
    table, bounds = schedule.table
    lengths = np.stack([durations.of(what) for what in Pass])
    starts, ends = np.full(len(table), np.nan), np.full(len(table), np.nan)
    done = _run(table, bounds, lengths, durations.transfer, schedule.microbatches, starts, ends)
    if not done:
        waits = [
            str(schedule.orders[rank][int(np.argmax(unfinished))])
            for rank in range(schedule.ranks)
            if (unfinished := np.isnan(ends[bounds[rank] : bounds[rank + 1]])).any()
        ]
        raise DeadlockError(f"no rank can go on: they wait to run {', '.join(waits)}")
    return ScheduleTimeline(schedule, starts, ends)


def step_ns(schedule: ScheduleTable, durations: Durations, once: FloatArray) -> float:
    """The time from the first pass to the end of the last rank's step.

    once: (stages,), ns of work on its rank after all passes.
    """
    _, bounds = schedule.table
    ends = run(schedule, durations).ends[bounds[1:] - 1]
    return float((ends + np.bincount(schedule.rank_of, once)).max())


@njit(cache=True, nogil=True)
def _run(
    table: IntArray,
    bounds: IntArray,
    lengths: FloatArray,
    transfer: FloatArray,
    microbatches: int,
    starts: FloatArray,
    ends: FloatArray,
) -> bool:
    ranks, stages = bounds.size - 1, lengths.shape[1]
    # arrived[direction, stage, microbatch]: arrival of the input of that pass
    arrived = np.full((2, stages, microbatches), np.inf)
    arrived[0, 0, :] = 0.0
    forward_ends = np.full((stages, microbatches), np.inf)
    halves = np.full((stages, microbatches), np.inf)
    link = np.zeros((2, stages))
    at = bounds[:-1].copy()
    free = np.zeros(ranks)
    moved = True
    while moved:
        moved = False
        for rank in range(ranks):
            while at[rank] < bounds[rank + 1]:
                stage, what, j = table[at[rank]]
                if what == 0:
                    ready = arrived[0, stage, j]
                elif what == 3:
                    ready = halves[stage, j]
                else:
                    ready = forward_ends[stage, j]
                    if stage + 1 < stages:
                        ready = max(ready, arrived[1, stage, j])
                if ready == np.inf:
                    break
                start = max(free[rank], ready)
                end = start + lengths[what, stage]
                starts[at[rank]], ends[at[rank]] = start, end
                free[rank] = end
                if what == 0:
                    forward_ends[stage, j] = end
                if what == 2:
                    halves[stage, j] = end
                back = what != 0
                to = stage - 1 if back else stage + 1
                if what != 3 and 0 <= to < stages:
                    edge = min(stage, to)
                    way = 1 if back else 0
                    end = max(end, link[way, edge]) + transfer[way, edge]
                    link[way, edge] = end
                    arrived[way, to, j] = end
                at[rank] += 1
                moved = True
    finished: bool = (at == bounds[1:]).all()
    return finished
