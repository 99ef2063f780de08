"""Sections of two interleaved half batches, made from the sections of one
(`meshwright_solver.evaluation.accounting.half_batch_segments`).

The first half gathers parameters and the last half reduces their gradients. Each half has a copy of
every other task.
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
    """The script with passes over both halves; tasks that run once a step wait for both."""
    half, op = in_legs(
        legs_of(np.array(list(_communicates(parts)), dtype=np.bool_), _bucket_counts(parts, script))
    )
    place = np.zeros((HALVES, len(parts.order)), dtype=np.int64)
    place[half, op] = np.arange(len(op))
    passes = {
        part: _HalfBatchPass.of(script[part], place, parts.order)
        for part in _PASSES
        if part in script
    }
    return {
        part: passes[part].section(passes) if part in passes else _once_section(section, passes)
        for part, section in script.items()
    }


def _communicates(parts: StageParts) -> Iterator[bool]:
    """By op: whether communication separates it from the ops before it."""
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


def _bucket_counts(parts: StageParts, script: Script) -> IntArray:
    """By op: parameter buckets that it is the first to need plus gradient buckets that it is the
    last to make."""
    count: Counter[int] = Counter()
    for part, kind in ((SectionKind.F, Kind.PARAMETER), (SectionKind.B, Kind.GRADIENT)):
        section = script.get(part, Section(part))
        pairs = zip(section.tasks, section.owners, strict=True)
        count.update(owner for task, owner in pairs if task.kind is kind)
    return np.array([count[position] for position in parts.order], dtype=np.int64)


@dataclass(frozen=True)
class _HalfBatchPass:
    """One pass over both half batches.

    order: (half, number) of every task, in issue order. number: (halves, tasks), the number of each
    task in the new section; both halves have the number of a shared task.
    """

    one: Section
    order: IntArray
    number: IntArray

    @staticmethod
    def of(one: Section, place: IntArray, positions: list[int]) -> _HalfBatchPass:
        """place: (halves, ops), the place of each op in the forward order."""
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
        issued = (kind != Kind.PARAMETER) | (half == first)
        issued &= (kind != Kind.GRADIENT) | (half == last)
        order = np.lexsort((number, rank.ravel()))
        order = order[issued[order]]
        place_of = np.zeros((HALVES, len(op)), dtype=np.int64)
        place_of[half[order], number[order]] = np.arange(len(order))
        for shared, by in ((Kind.PARAMETER, first), (Kind.GRADIENT, last)):
            place_of[:, kinds == shared] = place_of[by, kinds == shared]
        return _HalfBatchPass(one, np.stack([half[order], number[order]], axis=1), place_of)

    def section(self, passes: Mapping[SectionKind, _HalfBatchPass]) -> Section:
        section = Section(self.one.part)
        for half, number in self.order.tolist():
            task = self.one.tasks[number]
            halves = range(HALVES) if task.kind is Kind.GRADIENT else (half,)
            section.add(task, _needs_of_halves(self.one.needs[number], passes, halves))
        for gather in self.one.gathers:
            first = int(self.number[0, gather.first])
            reader = int(self.number[:, gather.reader].max())
            section.gathers.append(Gather(first, reader, gather.bytes))
        for holding in self.one.holdings:
            numbers = self.number[:, holding.number].tolist()
            if holding.is_shared:  # from its first reader to its last
                numbers = [min(numbers) if holding.bytes > 0 else max(numbers)]
            section.holdings += [holding._replace(number=number) for number in numbers]
        return section


def _once_section(section: Section, passes: Mapping[SectionKind, _HalfBatchPass]) -> Section:
    half_section = Section(section.part)
    for task, needs in zip(section.tasks, section.needs, strict=True):
        half_section.add(task, _needs_of_halves(needs, passes, range(HALVES)))
    return half_section


def _needs_of_halves(
    needs: tuple[Need, ...],
    passes: Mapping[SectionKind, _HalfBatchPass],
    halves: tuple[int, ...] | range,
) -> Iterator[Need]:
    for need in needs:
        half_pass = passes.get(need.part)
        if half_pass is None:
            yield need
        else:
            for half in halves:
                yield need._replace(number=int(half_pass.number[half, need.number]))
