"""What each rank's compute stream waits for.

While it stands still, something is on its way to the next task: what ended last before it, what let
that one start, and so on back to the begin of the wait. Each of these counts for the time that it
took; what another rank does is the bubble, but for the transfer itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.simulation.events import TaskTimes
from meshwright_solver.simulation.task_program import TaskProgram
from meshwright_solver.simulation.tasks import Kind

TRANSFER = int(Kind.PIPELINE)


@dataclass(frozen=True, slots=True)
class Stalls:
    """by_kind: ns, (ranks, kinds); that of COMPUTE is the bubble. by_task: how long each one was
    waited for."""

    by_kind: FloatArray
    by_task: FloatArray


def waits_of(program: TaskProgram, run: TaskTimes) -> Stalls:
    by_task = np.zeros(len(run.ends))
    ranks, end = program.schedule.ranks, float(run.ends.max(initial=0.0))
    kind, rank = program.kind, program.rank
    works = np.flatnonzero(kind == Kind.COMPUTE)
    bounds = np.searchsorted(rank[works], np.arange(ranks + 1))
    by_kind = np.zeros((ranks, len(Kind)))
    last = _last_of_all(program, run)
    _walk(works, bounds, last, kind, rank, run, end, by_kind, by_task)
    return Stalls(by_kind, by_task)


def _last_of_all(program: TaskProgram, run: TaskTimes) -> IntArray:
    """By rank: the task that ends last, transfers to others left out."""
    ends = np.where(program.kind == Kind.PIPELINE, -1.0, run.ends)
    found = [
        int(own[np.argmax(ends[own])])
        for own in (np.flatnonzero(program.rank == r) for r in range(program.schedule.ranks))
    ]
    return np.array(found, dtype=np.int64)


@njit(cache=True, nogil=True)
def _walk(
    works: IntArray,
    bounds: IntArray,
    last: IntArray,
    kind: IntArray,
    rank: IntArray,
    run: TaskTimes,
    end: float,
    by_kind: FloatArray,
    by_task: FloatArray,
) -> None:
    for own in range(bounds.size - 1):
        since = 0.0
        for k in range(bounds[own], bounds[own + 1]):
            task = works[k]
            _back(own, since, run.starts[task], run.cause[task], kind, rank, run, by_kind, by_task)
            since = max(since, run.ends[task])
        until = max(since, run.ends[last[own]])
        _back(own, since, until, last[own], kind, rank, run, by_kind, by_task)
        by_kind[own, 0] += end - until


@njit(cache=True, nogil=True)
def _back(
    own: int,
    since: float,
    until: float,
    at: int,
    kind: IntArray,
    rank: IntArray,
    run: TaskTimes,
    by_kind: FloatArray,
    by_task: FloatArray,
) -> None:
    """Account for a rank's wait, from its end back to its begin; at: what it waited for."""
    while until > since:
        if at < 0:
            by_kind[own, 0] += until - since
            return
        begin = max(since, run.starts[at])
        if begin < until:
            is_here = rank[at] == own or kind[at] == TRANSFER
            by_kind[own, kind[at] if is_here else 0] += until - begin
            if is_here:
                by_task[at] += until - begin
            until = begin
        at = run.cause[at]
