"""Stalls: idle times of each rank's compute stream, by the kind of task waited for.

The walk follows the chain of causes from a task back to the start of the wait: the task that ended
last before it, the task that let that one start, and so on. Each task of the chain counts with its
duration in the wait. Tasks of other ranks count as bubble, except the transfers.
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
    """Idle times, ns. by_kind: (ranks, kinds); the column of COMPUTE is the bubble. by_task: the
    wait for each task."""

    by_kind: FloatArray
    by_task: FloatArray


@dataclass(frozen=True, slots=True)
class Waits:
    """Intervals in which compute streams wait, by rank and time. kind: COMPUTE is the bubble."""

    rank: IntArray
    kind: IntArray
    starts: FloatArray
    ends: FloatArray


def waits_of(program: TaskProgram, run: TaskTimes) -> Stalls:
    """The idle times of every rank."""
    return _stalls(program, run, np.zeros((0, 4)))[0]


def intervals_of(program: TaskProgram, run: TaskTimes) -> Waits:
    """The idle times of every rank as intervals; adjacent ones of a kind are one."""
    _, count = _stalls(program, run, np.zeros((0, 4)))
    rows = np.zeros((count, 4))
    _stalls(program, run, rows)
    rows = rows[np.lexsort((rows[:, 2], rows[:, 0]))]
    follows = np.zeros(count, dtype=np.bool_)
    follows[1:] = (rows[1:, :2] == rows[:-1, :2]).all(axis=1) & (rows[1:, 2] <= rows[:-1, 3])
    first = np.flatnonzero(~follows)
    last = np.append(first, count)[1:] - 1
    rank, kind = rows[first, :2].astype(np.int64).T
    return Waits(rank, kind, rows[first, 2], rows[last, 3])


def _stalls(program: TaskProgram, run: TaskTimes, rows: FloatArray) -> tuple[Stalls, int]:
    """Idle times, and the number of their intervals.

    rows: (intervals, 4), filled with rank, kind, start and end as far as it has room.
    """
    by_task = np.zeros(len(run.ends))
    ranks, end = program.schedule.ranks, float(run.ends.max(initial=0.0))
    kind, rank = program.kind, program.rank
    works = np.flatnonzero(kind == Kind.COMPUTE)
    bounds = np.searchsorted(rank[works], np.arange(ranks + 1))
    by_kind = np.zeros((ranks, len(Kind)))
    last = _last_tasks(program, run)
    count = _walk(works, bounds, last, kind, rank, run, end, by_kind, by_task, rows)
    return Stalls(by_kind, by_task), count


def _last_tasks(program: TaskProgram, run: TaskTimes) -> IntArray:
    """By rank: the task that ends last, without pipeline transfers."""
    ends = np.where(program.kind == Kind.PIPELINE, -1.0, run.ends)
    last_tasks = [
        int(tasks[np.argmax(ends[tasks])])
        for tasks in (np.flatnonzero(program.rank == r) for r in range(program.schedule.ranks))
    ]
    return np.array(last_tasks, dtype=np.int64)


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
    rows: FloatArray,
) -> int:
    count = 0
    for waiting_rank in range(bounds.size - 1):
        since = 0.0
        for k in range(bounds[waiting_rank], bounds[waiting_rank + 1]):
            task = works[k]
            count = _back(
                waiting_rank,
                since,
                run.starts[task],
                run.cause[task],
                kind,
                rank,
                run,
                by_kind,
                by_task,
                rows,
                count,
            )
            since = max(since, run.ends[task])
        until = max(since, run.ends[last[waiting_rank]])
        at = last[waiting_rank]
        count = _back(
            waiting_rank, since, until, at, kind, rank, run, by_kind, by_task, rows, count
        )
        by_kind[waiting_rank, 0] += end - until
        if end > until:
            count = _add(rows, count, waiting_rank, 0, until, end)
    return count


@njit(cache=True, nogil=True)
def _back(
    waiting_rank: int,
    since: float,
    until: float,
    at: int,
    kind: IntArray,
    rank: IntArray,
    run: TaskTimes,
    by_kind: FloatArray,
    by_task: FloatArray,
    rows: FloatArray,
    count: int,
) -> int:
    """Attribute a rank's wait, from its end back to its start; at: the task waited for.

    Returns the number of intervals so far; count: that before.
    """
    while until > since:
        if at < 0:
            by_kind[waiting_rank, 0] += until - since
            return _add(rows, count, waiting_rank, 0, since, until)
        begin = max(since, run.starts[at])
        if begin < until:
            is_here = rank[at] == waiting_rank or kind[at] == TRANSFER
            waited = kind[at] if is_here else 0
            by_kind[waiting_rank, waited] += until - begin
            count = _add(rows, count, waiting_rank, waited, begin, until)
            if is_here:
                by_task[at] += until - begin
            until = begin
        at = run.cause[at]
    return count


@njit(cache=True, nogil=True)
def _add(
    rows: FloatArray, count: int, waiting_rank: int, kind: int, start: float, end: float
) -> int:
    if count < len(rows):
        rows[count, 0], rows[count, 1] = waiting_rank, kind
        rows[count, 2], rows[count, 3] = start, end
    return count + 1
