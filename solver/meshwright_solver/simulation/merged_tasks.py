"""Tasks of microbatches that a trace does not show one by one, merged on each stream.

On a link, tasks with a gap of less than a pixel between them are one piece. A stream runs one task
at a time, so pieces do not overlap with each other or with the tasks that are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.simulation.step import SimulatedStep
from meshwright_solver.simulation.task_program import PlacedSection
from meshwright_solver.simulation.tasks import Kind, StreamTask

MAX_PIECES = 40_000  # chosen: of all streams of a step; a browser draws them at once

ThreadOf = Callable[[PlacedSection, StreamTask], int]


class MergedTasks(NamedTuple):
    """Merged tasks of a stream. kind: of the most busy time. first, last: microbatches."""

    thread: int
    kind: Kind
    start: float
    end: float
    busy_ns: float
    first: int
    last: int


def pieces_of(
    step: SimulatedStep, rank: int, shown: Collection[int], thread_of: ThreadOf
) -> Iterator[MergedTasks]:
    """The pieces of a rank's links. shown: microbatches whose tasks are not merged."""
    places = step.program.made[rank]
    hidden = [place.part.is_pass and place.microbatch not in shown for place in places]
    if not any(hidden):
        return
    begin, counts = places[0].first, [len(step.program.section(place).tasks) for place in places]
    numbers = begin + np.arange(sum(counts))
    thread = np.concatenate([_threads(step, place, thread_of) for place in places])
    is_hidden = np.repeat(hidden, counts)
    microbatch = np.repeat([place.microbatch for place in places], counts)
    starts, ends = step.run.starts[numbers], step.run.ends[numbers]
    kind = step.program.kind[numbers]
    chosen = np.flatnonzero((ends > starts) & (kind != Kind.COMPUTE))
    order = chosen[np.lexsort((starts[chosen], thread[chosen]))]
    thread, is_hidden, microbatch = thread[order], is_hidden[order], microbatch[order]
    starts, ends, kind = starts[order], ends[order], kind[order]
    streams = step.program.schedule.ranks * max(1, len(np.unique(thread)))
    gap_ns = step.ns * streams / MAX_PIECES
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = (
        (thread[1:] != thread[:-1])
        | ~is_hidden[1:]
        | ~is_hidden[:-1]
        | (starts[1:] - ends[:-1] > gap_ns)
    )
    first = np.flatnonzero(begins & is_hidden)
    bounds = np.append(np.flatnonzero(begins), len(order))
    last = bounds[np.searchsorted(bounds, first, side="right")]
    for a, b in zip(first.tolist(), last.tolist(), strict=True):
        busy = np.bincount(kind[a:b], ends[a:b] - starts[a:b])
        yield MergedTasks(
            thread=int(thread[a]),
            kind=Kind(int(np.argmax(busy))),
            start=float(starts[a]),
            end=float(ends[b - 1]),
            busy_ns=float(busy.sum()),
            first=int(microbatch[a:b].min()),
            last=int(microbatch[a:b].max()),
        )


def _threads(step: SimulatedStep, place: PlacedSection, thread_of: ThreadOf) -> IntArray:
    tasks = step.program.section(place).tasks
    return np.array([thread_of(place, task) for task in tasks], dtype=np.int64)
