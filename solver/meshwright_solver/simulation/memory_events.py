"""Memory holdings of a stage's tasks, as the evaluator counts them
(`meshwright_solver.evaluation.memory`).

A holding lasts from the start of one compute task to the end of another. Ops run in the evaluator's
order, so a microbatch holds the evaluator's number of bytes while an op runs, at any time. Gathered
parameters count from the op before their first reader; memory of earlier prefetches is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.evaluation.accounting.ledger import AssignmentShare
from meshwright_solver.evaluation.memory.event_order import EventOrder, OpEvent
from meshwright_solver.evaluation.memory.holding_tables import HoldingKind, Holdings
from meshwright_solver.evaluation.memory.holdings import holdings_of
from meshwright_solver.evaluation.memory.peak import rows_of
from meshwright_solver.evaluation.memory.stage_memory import stage_order
from meshwright_solver.simulation.stage_parts import StageParts
from meshwright_solver.simulation.tasks import MemoryChange, Need, Section, SectionKind


def hold(
    parts: StageParts,
    sections: Mapping[SectionKind, Section],
    done: Mapping[tuple[OpEvent, int], Need],
    *,
    split: bool,
) -> None:
    """Write memory holdings into the sections of passes. done: the task of every op event."""
    models, assignment = parts.models, parts.assignment
    order = stage_order(models, assignment, split=split)
    held = holdings_of(
        models, assignment, parts.ledger, AssignmentShare.all_of(models, assignment), order
    )
    names = np.arange(len(models.problem.ops))
    none = held.rows[:0], held.gathers[:0], held.unreduced[:0]
    gathers = Holdings(none[0], held.gathers, none[2], 0)
    passes = _passes(order, sections, done, split=split)
    others = replace(held, gathers=none[1])
    for holdings in (gathers, others):
        rows, beside, buffers_bytes, _ = rows_of(order, [(holdings, names[None])])
        sections[SectionKind.F].buffers_bytes += buffers_bytes
        for one in passes:
            one.write(rows, at_borders=False, is_shared=holdings is gathers)
            one.write(beside, at_borders=True, is_shared=holdings is gathers)


class _MicrobatchPass:
    """A pass over a microbatch: the places of the evaluator's order from `begin` to `end`.

    first: by place, the first task at it or after it. last: the last task at it or before it.
    ahead: the number of tasks before a place. through: the number up to and including it.
    """

    def __init__(self, section: Section, begin: int, numbers: IntArray) -> None:
        self.section = section
        self.begin, self.end = begin, begin + len(numbers)
        tasks = numbers[numbers >= 0]
        self.through = np.cumsum(numbers >= 0)
        self.ahead: IntArray = self.through - (numbers >= 0)
        self.first = tasks[np.minimum(self.ahead, len(tasks) - 1)]
        self.last = tasks[np.maximum(self.through - 1, 0)]

    def write(self, rows: IntArray, *, at_borders: bool, is_shared: bool) -> None:
        """Write the holdings of rows. is_shared: by both half batches.

        at_borders: holdings end at the border to another pass, since the schedule may run other
        passes between the two.
        """
        begins, ends = rows[:, 0], rows[:, 1]
        if at_borders:
            inside = (begins < self.end) & (ends >= self.begin)
            begins = np.maximum(begins[inside], self.begin)
            ends = np.minimum(ends[inside], self.end - 1)
            rows = rows[inside]
        for start, end, (_, _, size, what) in zip(begins, ends, rows.tolist(), strict=True):
            kind = HoldingKind(what)
            begins_here, ends_here = (self.begin <= at < self.end for at in (start, end))
            if begins_here and ends_here and self._is_idle(start, end):
                continue
            if begins_here:
                number = int(self.first[start - self.begin])
                self.section.holdings.append(MemoryChange(number, size, kind, is_shared))
            if ends_here:
                number = int(self.last[end - self.begin])
                self.section.holdings.append(MemoryChange(number, -size, kind, is_shared))

    def _is_idle(self, start: int, end: int) -> bool:
        """Whether no task runs between two places."""
        return bool(self.ahead[start - self.begin] == self.through[end - self.begin])


def _passes(
    order: EventOrder,
    sections: Mapping[SectionKind, Section],
    done: Mapping[tuple[OpEvent, int], Need],
    *,
    split: bool,
) -> list[_MicrobatchPass]:
    parts = (
        (SectionKind.F, SectionKind.I, SectionKind.W) if split else (SectionKind.F, SectionKind.B)
    )
    passes = []
    for part, begin, end in zip(parts, order.passes, order.passes[1:], strict=False):
        events = zip(
            order.kinds[begin:end].tolist(), order.positions[begin:end].tolist(), strict=True
        )
        tasks = [done.get((OpEvent(kind), position)) for kind, position in events]
        numbers = [-1 if task is None else task.number for task in tasks]
        if max(numbers, default=-1) >= 0:
            passes.append(_MicrobatchPass(sections[part], begin, np.array(numbers, dtype=np.int64)))
    return passes
