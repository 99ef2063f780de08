"""The sections of two halves of a batch that take turns
(`meshwright_solver.evaluation.accounting.half_batch_segments`), from those of one.

Parameters are gathered by the half that comes first, and their gradients reduced after the half
that comes last; all other tasks are both halves' own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.evaluation.accounting.half_batch_segments import HALVES, in_legs, legs_of
from meshwright_solver.simulation.stage_parts import StageParts
from meshwright_solver.simulation.stage_tasks import Script
from meshwright_solver.simulation.tasks import Gather, Kind, Need, Section, SectionKind

_PASSES = (SectionKind.F, SectionKind.B)


def in_halves(parts: StageParts, script: Script) -> Script:
    """Passes over both halves; what is done once a step waits for both."""
    half, op = in_legs(
        legs_of(np.array(list(_moves(parts)), dtype=np.bool_), _holds(parts, script))
    )
    place = np.zeros((HALVES, len(parts.order)), dtype=np.int64)
    place[half, op] = np.arange(len(op))
    own = {
        part: _HalfBatchPass.of(script[part], place, parts.order)
        for part in _PASSES
        if part in script
    }
    return {
        part: own[part].section(own) if part in own else _once(section, own)
        for part, section in script.items()
    }


def _moves(parts: StageParts) -> Iterator[bool]:
    """Of every op, whether anything moves between it and those before it."""
    seen: set[str] = set()
    moved_before = False
    for position in parts.order:
        steps = parts.plan_of[position].own_steps
        moves_itself = any(step.ns > 0 for step in steps)
        moved = moves_itself or moved_before
        moved_before = moves_itself
        for port, value in enumerate(parts.values_read(position)):
            ways = [parts.moves.activations.get((value.root, (position, port)))]
            if value.root not in seen:
                ways.append(parts.moves.activations.get((value.root, None)))
            seen.add(value.root)
            moved |= any(
                step.ns > 0 for way in ways if way for step in (*way.forward, *way.backward)
            )
        yield moved


def _holds(parts: StageParts, script: Script) -> IntArray:
    """Of every op, how many buckets of parameters it is the first to need, and of gradients
    the last to make."""
    count: Counter[int] = Counter()
    for part, kind in ((SectionKind.F, Kind.PARAMETER), (SectionKind.B, Kind.GRADIENT)):
        section = script.get(part, Section(part))
        pairs = zip(section.tasks, section.owners, strict=True)
        count.update(owner for task, owner in pairs if task.kind is kind)
    return np.array([count[position] for position in parts.order], dtype=np.int64)


@dataclass(frozen=True)
class _HalfBatchPass:
    """A pass over a half. order: tasks of both halves as they are issued, (half, number); number:
    (halves, tasks) where each is; of a task that both share, where that one is."""

    one: Section
    order: IntArray
    number: IntArray

    @staticmethod
    def of(one: Section, place: IntArray, positions: list[int]) -> _HalfBatchPass:
        """place: of each half's ops in the order in which they run forward."""
        index = {position: k for k, position in enumerate(positions)}
        op = np.array([index[owner] for owner in one.owners], dtype=np.int64)
        tasks = np.arange(len(op))
        at = place[:, op]
        first, last = (0, HALVES - 1) if one.part is SectionKind.F else (HALVES - 1, 0)
        rank = at if one.part is SectionKind.F else -at
        kinds = np.array([task.kind for task in one.tasks], dtype=np.int64)
        half = np.repeat(np.arange(HALVES), len(op))
        number = np.tile(tasks, HALVES)
        kind = np.tile(kinds, HALVES)
        kept = (kind != Kind.PARAMETER) | (half == first)
        kept &= (kind != Kind.GRADIENT) | (half == last)
        order = np.lexsort((number, rank.ravel()))
        order = order[kept[order]]
        found = np.zeros((HALVES, len(op)), dtype=np.int64)
        found[half[order], number[order]] = np.arange(len(order))
        for shared, by in ((Kind.PARAMETER, first), (Kind.GRADIENT, last)):
            found[:, kinds == shared] = found[by, kinds == shared]
        return _HalfBatchPass(one, np.stack([half[order], number[order]], axis=1), found)

    def section(self, passes: Mapping[SectionKind, _HalfBatchPass]) -> Section:
        made = Section(self.one.part)
        for half, number in self.order.tolist():
            task = self.one.tasks[number]
            halves = range(HALVES) if task.kind is Kind.GRADIENT else (half,)
            made.add(task, _mapped(self.one.needs[number], passes, halves))
        for gather in self.one.gathers:
            first = int(self.number[0, gather.first])
            reader = int(self.number[:, gather.reader].max())
            made.gathers.append(Gather(first, reader, gather.bytes))
        for holding in self.one.holdings:
            numbers = self.number[:, holding.number].tolist()
            if holding.held == "gathered":  # for both, from the first that needs it to the last
                numbers = [min(numbers) if holding.bytes > 0 else max(numbers)]
            made.holdings += [holding._replace(number=number) for number in numbers]
        return made


def _once(section: Section, passes: Mapping[SectionKind, _HalfBatchPass]) -> Section:
    made = Section(section.part)
    for task, needs in zip(section.tasks, section.needs, strict=True):
        made.add(task, _mapped(needs, passes, range(HALVES)))
    return made


def _mapped(
    needs: tuple[Need, ...],
    passes: Mapping[SectionKind, _HalfBatchPass],
    halves: tuple[int, ...] | range,
) -> Iterator[Need]:
    for need in needs:
        own = passes.get(need.part)
        if own is None:
            yield need
        else:
            for half in halves:
                yield need._replace(number=int(own.number[half, need.number]))
