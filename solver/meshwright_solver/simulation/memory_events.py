"""What the tasks of a stage hold: what the judge counts (`meshwright_solver.evaluation.memory`), at
the tasks of its events.

All of it is held from a task's begin to a task's end on the compute stream, where ops run in the
judge's order. So what a microbatch holds while an op runs is what the judge says of that moment,
whenever it runs. Parameters are held from the op before their first reader on; what links gather
further ahead where memory is left is not counted.
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
from meshwright_solver.simulation.tasks import Held, MemoryChange, Need, Section, SectionKind


def hold(
    parts: StageParts,
    sections: Mapping[SectionKind, Section],
    done: Mapping[tuple[OpEvent, int], Need],
    *,
    split: bool,
) -> None:
    """Write what is held into the sections of passes. done: the task of every event of an op."""
    models, assignment = parts.models, parts.assignment
    order = stage_order(models, assignment, split=split)
    held = holdings_of(
        models, assignment, parts.ledger, AssignmentShare.all_of(models, assignment), order
    )
    names = np.arange(len(models.problem.ops))
    none = held.rows[:0], held.gathers[:0], held.unreduced[:0]
    gathers = Holdings(none[0], held.gathers, none[2], 0)
    passes = _passes(order, sections, done, split=split)
    kinds: tuple[tuple[Holdings, Held], ...] = (
        (gathers, "gathered"),
        (replace(held, gathers=none[1]), "working"),
    )
    for own, kind in kinds:
        rows, beside, buffers_bytes, _ = rows_of(order, [(own, names[None])])
        sections[SectionKind.F].buffers_bytes += buffers_bytes
        for one in passes:
            one.write(rows, kind, at_borders=False)
            one.write(beside, kind, at_borders=True)


class _MicrobatchPass:
    """A pass over a microbatch: the places of the judge's order from `begin` to `end`.

    first, last: of every place, the task that is the first there or behind, and the last there or
    before. ahead, through: how many tasks come before a place, and how many with it.
    """

    def __init__(self, section: Section, begin: int, numbers: IntArray) -> None:
        self.section = section
        self.begin, self.end = begin, begin + len(numbers)
        tasks = numbers[numbers >= 0]
        self.through = np.cumsum(numbers >= 0)
        self.ahead: IntArray = self.through - (numbers >= 0)
        self.first = tasks[np.minimum(self.ahead, len(tasks) - 1)]
        self.last = tasks[np.maximum(self.through - 1, 0)]

    def write(self, rows: IntArray, kind: Held, *, at_borders: bool) -> None:
        """kind: of what is not saved. at_borders: what reaches over the border to another pass ends
        there, since that need not be the next one that runs."""
        begins, ends = rows[:, 0], rows[:, 1]
        if at_borders:
            inside = (begins < self.end) & (ends >= self.begin)
            begins = np.maximum(begins[inside], self.begin)
            ends = np.minimum(ends[inside], self.end - 1)
            rows = rows[inside]
        for start, end, (_, _, size, what) in zip(begins, ends, rows.tolist(), strict=True):
            held: Held = "saved" if what == HoldingKind.SAVED else kind
            begins_here, ends_here = (self.begin <= at < self.end for at in (start, end))
            if begins_here and ends_here and self._is_idle(start, end):
                continue
            if begins_here:
                number = int(self.first[start - self.begin])
                self.section.holdings.append(MemoryChange(number, size, held))
            if ends_here:
                number = int(self.last[end - self.begin])
                self.section.holdings.append(MemoryChange(number, -size, held))

    def _is_idle(self, start: int, end: int) -> bool:
        """Whether no task runs from one place to another."""
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
    found = []
    for part, begin, end in zip(parts, order.passes, order.passes[1:], strict=False):
        events = zip(
            order.kinds[begin:end].tolist(), order.positions[begin:end].tolist(), strict=True
        )
        tasks = [done.get((OpEvent(kind), position)) for kind, position in events]
        numbers = [-1 if task is None else task.number for task in tasks]
        if max(numbers, default=-1) >= 0:
            found.append(_MicrobatchPass(sections[part], begin, np.array(numbers, dtype=np.int64)))
    return found
