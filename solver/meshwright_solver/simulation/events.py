"""The run: tasks start when what they need is done and their stream is free.

A *lane* is a line of tasks that keep their order: the compute stream's, or those of one kind on a
link. A *stream* runs one task at a time; of its lanes that could go on, the first goes.
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
    """lane: of every task; in a lane the lower number comes first. lanes: every stream's, (streams,
    most), -1 behind the last. source, target: what needs what."""

    ns: FloatArray
    lane: IntArray
    stream_of: IntArray
    lanes: IntArray
    source: IntArray
    target: IntArray


class TaskTimes(NamedTuple):
    """By task: when it starts and ends, ns, and the task whose end let it start, or NOBODY."""

    starts: FloatArray
    ends: FloatArray
    cause: IntArray


def run(lines: Lines) -> TaskTimes:
    """Raises ValueError where tasks wait for each other."""
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
            own = stream_of[lane[task]]
            busy[own] = False
            previous[own] = task
            if not touched[own]:
                touched[own] = True
                wanted.append(own)
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
