"""The discrete-event loop: a task starts when its dependencies end and its stream is free.

A *lane* is a FIFO queue of tasks: those of the compute stream, or those of one kind on a link. A
*stream* runs one task at a time, from its first lane whose next task is ready.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.compilation import njit

NOBODY = -1


@dataclass(frozen=True, slots=True)
class Lines:
    """The tasks of a step with their lanes, streams and dependencies.

    lane: of every task; in a lane, lower task numbers come first. lanes: of every stream, by
    precedence, (streams, most), filled up with -1. source, target: by dependency, the task waited
    for and the task that waits.
    """

    ns: FloatArray
    lane: IntArray
    stream_of: IntArray
    lanes: IntArray
    source: IntArray
    target: IntArray


class TaskTimes(NamedTuple):
    """Start and end of every task, ns, and the task whose end let it start, or NOBODY."""

    starts: FloatArray
    ends: FloatArray
    cause: IntArray


def run(lines: Lines) -> TaskTimes:
    """Simulate the tasks of a step. Raises ValueError where dependencies form a cycle."""
    count = len(lines.ns)
    order = np.argsort(lines.lane, kind="stable")
    bounds = np.searchsorted(lines.lane[order], np.arange(len(lines.stream_of) + 1))
    by_source = np.argsort(lines.source, kind="stable")
    first = np.searchsorted(lines.source[by_source], np.arange(count + 1))
    waits = np.bincount(lines.target, minlength=count)
    starts, ends = np.full(count, np.nan), np.full(count, np.nan)
    cause = np.full(count, NOBODY, dtype=np.int64)
    _run(
        lines.ns, lines.lane, lines.stream_of, lines.lanes, order, bounds,
        first, lines.target[by_source], waits, starts, ends, cause,
    )  # fmt: skip
    if np.isnan(ends).any():
        stuck = int(np.isnan(ends).argmax())
        raise ValueError(f"tasks wait for each other; the first that never runs is {stuck}")
    return TaskTimes(starts, ends, cause)


@njit(cache=True, nogil=True)
def _run(
    ns: FloatArray,
    lane: IntArray,
    stream_of: IntArray,
    lanes: IntArray,
    order: IntArray,
    bounds: IntArray,
    first: IntArray,
    target: IntArray,
    waits: IntArray,
    starts: FloatArray,
    ends: FloatArray,
    cause: IntArray,
) -> None:
    streams, most = lanes.shape
    at = bounds[:-1].copy()
    busy = np.zeros(streams, dtype=np.bool_)
    previous = np.full(streams, -1)
    ready = np.zeros(ns.size)
    freed_by = np.full(ns.size, -1)
    touched = np.ones(streams, dtype=np.bool_)
    wanted = list(range(streams))
    heap = [(0.0, -1)]
    while len(heap) > 0:
        now = heap[0][0]
        while len(heap) > 0 and heap[0][0] == now:
            task = heapq.heappop(heap)[1]
            if task < 0:
                continue
            task_stream = stream_of[lane[task]]
            busy[task_stream] = False
            previous[task_stream] = task
            if not touched[task_stream]:
                touched[task_stream] = True
                wanted.append(task_stream)
            for k in range(first[task], first[task + 1]):
                other = target[k]
                waits[other] -= 1
                if waits[other] == 0:
                    ready[other] = now
                    freed_by[other] = task
                    stream = stream_of[lane[other]]
                    if not touched[stream]:
                        touched[stream] = True
                        wanted.append(stream)
        for stream in wanted:
            touched[stream] = False
            if busy[stream]:
                continue
            for k in range(most):
                line = lanes[stream, k]
                if line < 0:
                    break
                if at[line] == bounds[line + 1]:
                    continue
                task = order[at[line]]
                if waits[task] > 0:
                    continue
                at[line] += 1
                busy[stream] = True
                starts[task], ends[task] = now, now + ns[task]
                came = freed_by[task] >= 0 and ready[task] == now
                cause[task] = freed_by[task] if came else previous[stream]
                heapq.heappush(heap, (ends[task], task))
                break
        wanted.clear()
