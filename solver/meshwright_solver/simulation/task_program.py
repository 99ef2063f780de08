"""A step as flat arrays of tasks: every section as often as the schedule runs it.

Tasks are numbered rank by rank in the order in which they are issued. Gathered parameters take
memory, so one is gathered only once those before it that are still wanted leave room for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from meshwright.schedules.schedule import Pass, ScheduleTable, stages_on
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.identity_keys import IdentityKey, IdentityKeys
from meshwright_solver.simulation.events import Lines
from meshwright_solver.simulation.stage_tasks import Script
from meshwright_solver.simulation.tasks import HostLink, Kind, Section, SectionKind

# chosen: as FSDP, which gathers the next layer during the one before; one of Llama-3 70B is 1.7 GB
PREFETCH_BYTES = 2 << 30
ON_LINKS = (Kind.ACTIVATION, Kind.PARAMETER, Kind.GRADIENT, Kind.HOST)


class PlacedSection(NamedTuple):
    """A section in its place: its tasks are numbered from `first` on."""

    stage: int
    part: SectionKind
    microbatch: int
    first: int


@dataclass(frozen=True)
class TaskProgram:
    """scripts: of the stages. levels: the most that the topology of a rank has."""

    schedule: ScheduleTable
    scripts: Sequence[Script]
    levels: int

    @property
    def links(self) -> int:
        """Streams of a rank beside compute: its levels, then its host's."""
        return self.levels + len(HostLink)

    @cached_property
    def made(self) -> tuple[tuple[PlacedSection, ...], ...]:
        """What every rank does, in the order in which it is issued."""
        count, found = 0, []
        for rank in range(self.schedule.ranks):
            own = []
            for stage, part, microbatch in self._order(rank):
                section = self.scripts[stage].get(part)
                if section is not None:
                    own.append(PlacedSection(stage, part, microbatch, count))
                    count += len(section.tasks)
            found.append(tuple(own))
        return tuple(found)

    def section(self, own: PlacedSection) -> Section:
        return self.scripts[own.stage][own.part]

    def _order(self, rank: int) -> Iterator[tuple[int, SectionKind, int]]:
        stages = stages_on(self.schedule.rank_of, rank)
        last = self.schedule.microbatches - 1
        for stage in stages:
            yield stage, SectionKind.SPREAD, 0
        for stage, what, microbatch in self.schedule.orders[rank]:
            yield stage, SectionKind(what), microbatch
            if what in (Pass.B, Pass.W) and microbatch == last:
                yield stage, SectionKind.REDUCE, 0
        for stage in stages:
            yield stage, SectionKind.UPDATE, 0

    @cached_property
    def kind(self) -> IntArray:
        """Of every task."""
        return self._flat("kind")

    @cached_property
    def _ns(self) -> FloatArray:
        return self._flat("ns").astype(np.float64)

    @cached_property
    def rank(self) -> IntArray:
        """Of every task; transfers are those of the rank that sends."""
        counts = [sum(len(self.section(own).tasks) for own in rank) for rank in self.made]
        return np.repeat(np.arange(len(counts)), counts)

    @cached_property
    def lines(self) -> Lines:
        """Everything that decides when each task runs."""
        source, target = self._edges()
        stream_of, lanes = self._streams()
        return Lines(self._ns, self._lane(), stream_of, lanes, source, target)

    def _flat(self, field: str) -> IntArray:
        key_of = IdentityKeys()
        known: dict[IdentityKey, IntArray] = {}
        rows = []
        for rank in self.made:
            for own in rank:
                section = self.section(own)
                key = key_of(section)
                if key not in known:
                    known[key] = np.array([getattr(task, field) for task in section.tasks])
                rows.append(known[key])
        return np.concatenate([row for row in rows if len(row)])

    def _lane(self) -> IntArray:
        """Per rank: compute, then every kind on every link; behind them the transfers'."""
        per_rank = 1 + len(ON_LINKS) * self.links
        kind, link = self.kind, self._flat("link")
        link = np.where(kind == Kind.HOST, self.levels + link, link)
        on_link = 1 + len(ON_LINKS) * np.maximum(link, 0) + kind - Kind.ACTIVATION
        lane = self.rank * per_rank + np.where(kind == Kind.COMPUTE, 0, on_link)
        transfers = self.schedule.ranks * per_rank
        for rank in self.made:
            for own in rank:
                section = self.section(own)
                if section.transfers:
                    back = own.part is not SectionKind.F
                    edge = own.stage - 1 if back else own.stage
                    first = own.first + section.first_transfer
                    lane[first : first + section.transfers] = transfers + 2 * edge + back
        return lane

    def _streams(self) -> tuple[IntArray, IntArray]:
        """The stream of every lane, and the lanes of every stream, by precedence."""
        ranks, kinds = self.schedule.ranks, len(ON_LINKS)
        edges = 2 * (self.schedule.stages - 1)
        own = np.concatenate([[0], np.repeat(1 + np.arange(self.links), kinds)])
        streams = 1 + self.links
        of_ranks = (np.arange(ranks)[:, None] * streams + own[None, :]).ravel()
        stream_of = np.concatenate([of_ranks, ranks * streams + np.arange(edges)])
        lanes = np.full((ranks * streams + edges, kinds), -1, dtype=np.int64)
        place = np.zeros(len(lanes), dtype=np.int64)
        for lane, stream in enumerate(stream_of):
            lanes[stream, place[stream]] = lane
            place[stream] += 1
        return stream_of.astype(np.int64), lanes

    def _edges(self) -> tuple[IntArray, IntArray]:
        places: dict[tuple[int, SectionKind], list[tuple[int, int]]] = {}
        for rank in self.made:
            for own in rank:
                places.setdefault((own.stage, own.part), []).append((own.microbatch, own.first))
        first = {key: self._by_microbatch(own) for key, own in places.items()}
        sources, targets = [], []
        for (stage, part), made in places.items():
            needs = _Needs.of(self.scripts[stage][part])
            microbatches, begins = np.array(made, dtype=np.int64).T.copy()
            if not part.is_pass:
                microbatches[:] = self.schedule.microbatches - 1
            for other, steps in needs.kinds:
                which = (needs.part == other) & (needs.steps == steps)
                there = first[stage + steps, SectionKind(other)][microbatches]
                number = needs.number[which]
                if steps:
                    number = number + self.scripts[stage + steps][SectionKind(other)].first_transfer
                sources.append((there[:, None] + number[None, :]).ravel())
                targets.append((begins[:, None] + needs.target[which][None, :]).ravel())
        for rank in self.made:
            source, target = self._room(rank)
            sources.append(source)
            targets.append(target)
        return np.concatenate(sources), np.concatenate(targets)

    def _by_microbatch(self, own: list[tuple[int, int]]) -> IntArray:
        """Where a section begins; of one that runs once a step, the same for all microbatches."""
        found = np.full(self.schedule.microbatches, own[0][1], dtype=np.int64)
        for microbatch, first in own if len(own) > 1 else ():
            found[microbatch] = first
        return found

    def _room(self, rank: Sequence[PlacedSection]) -> tuple[IntArray, IntArray]:
        """Gathers wait for readers of earlier ones, so that what is gathered ahead stays within
        PREFETCH_BYTES; one is always gathered during its forerunner's use."""
        rows = [
            (own.first + gather.first, own.first + gather.reader, gather.bytes)
            for own in rank
            for gather in self.section(own).gathers
        ]
        if len(rows) < 3:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        first, reader, size = np.array(rows, dtype=np.int64).T.copy()
        # nobody waits for what is still wanted when the next but one is issued (a tied embedding)
        stays = np.append(reader[:-2] >= first[2:], [True, True])
        reader = np.where(stays, first, reader)
        total = np.cumsum(size)
        # the last gather whose bytes must be free before number k starts
        freed = np.searchsorted(total, total - PREFETCH_BYTES, side="left")
        freed = np.minimum(freed, np.arange(len(rows)) - 1) - 1
        waits = freed >= 0
        return reader[freed[waits]], first[waits]


@dataclass(frozen=True, slots=True)
class _Needs:
    """What the tasks of a section need, one row a need."""

    target: IntArray
    part: IntArray
    number: IntArray
    steps: IntArray

    @staticmethod
    def of(section: Section) -> _Needs:
        rows = [
            (target, need.part, need.number, need.steps)
            for target, own in enumerate(section.needs)
            for need in own
        ]
        return _Needs(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)

    @property
    def kinds(self) -> list[tuple[int, int]]:
        pairs = np.stack([self.part, self.steps], axis=1)
        return [(int(a), int(b)) for a, b in np.unique(pairs, axis=0)]
