"""The task program of a step: flat arrays of tasks, every section once a scheduled run.

Tasks are numbered rank by rank in issue order. Gathered parameters take memory, so a gather waits
until earlier ones that are still in use leave room for it.
"""

from __future__ import annotations

from bisect import bisect_right
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
from meshwright_solver.simulation.tasks import HostLink, Kind, Section, SectionKind, StreamTask

# chosen: as FSDP, which gathers the next layer during the one before; one of Llama-3 70B is 1.7 GB
PREFETCH_BYTES = 2 << 30
ON_LINKS = (Kind.ACTIVATION, Kind.PARAMETER, Kind.GRADIENT, Kind.HOST)


class PlacedSection(NamedTuple):
    """One run of a section; its tasks are numbered from `first`."""

    stage: int
    part: SectionKind
    microbatch: int
    first: int


@dataclass(frozen=True)
class TaskProgram:
    """The tasks of a step. scripts: by stage. levels: the maximum over the ranks' topologies."""

    schedule: ScheduleTable
    scripts: Sequence[Script]
    levels: int

    @property
    def links(self) -> int:
        """Number of a rank's streams beside compute: its topology levels, then its host's."""
        return self.levels + len(HostLink)

    @cached_property
    def made(self) -> tuple[tuple[PlacedSection, ...], ...]:
        """The runs of sections of every rank, in issue order."""
        count, ranks = 0, []
        for rank in range(self.schedule.ranks):
            sections = []
            for stage, part, microbatch in self._order(rank):
                section = self.scripts[stage].get(part)
                if section is not None:
                    sections.append(PlacedSection(stage, part, microbatch, count))
                    count += len(section.tasks)
            ranks.append(tuple(sections))
        return tuple(ranks)

    def section(self, place: PlacedSection) -> Section:
        return self.scripts[place.stage][place.part]

    def task(self, rank: int, number: int) -> tuple[PlacedSection, StreamTask]:
        """A task of a rank by its number, and the run of its section."""
        after = bisect_right(self.made[rank], number, key=lambda place: place.first)
        place = self.made[rank][after - 1]
        return place, self.section(place).tasks[number - place.first]

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
        """The kind of every task."""
        return self._flat("kind")

    @cached_property
    def link(self) -> IntArray:
        """The link of every task; see `StreamTask`."""
        return self._flat("link")

    @cached_property
    def _ns(self) -> FloatArray:
        return self._flat("ns").astype(np.float64)

    @cached_property
    def rank(self) -> IntArray:
        """The rank of every task; a transfer has the rank that sends."""
        counts = [sum(len(self.section(place).tasks) for place in rank) for rank in self.made]
        return np.repeat(np.arange(len(counts)), counts)

    @cached_property
    def lines(self) -> Lines:
        """The input of the event loop."""
        source, target = self._edges()
        stream_of, lanes = self._streams()
        return Lines(self._ns, self._lane(), stream_of, lanes, source, target)

    def _flat(self, field: str) -> IntArray:
        key_of = IdentityKeys()
        known: dict[IdentityKey, IntArray] = {}
        rows = []
        for rank in self.made:
            for place in rank:
                section = self.section(place)
                key = key_of(section)
                if key not in known:
                    known[key] = np.array([getattr(task, field) for task in section.tasks])
                rows.append(known[key])
        return np.concatenate([row for row in rows if len(row)])

    def _lane(self) -> IntArray:
        """The lane of every task: per rank compute, then every kind on every link; transfers
        come last."""
        per_rank = 1 + len(ON_LINKS) * self.links
        kind, link = self.kind, self.link
        link = np.where(kind == Kind.HOST, self.levels + link, link)
        on_link = 1 + len(ON_LINKS) * np.maximum(link, 0) + kind - Kind.ACTIVATION
        lane = self.rank * per_rank + np.where(kind == Kind.COMPUTE, 0, on_link)
        transfers = self.schedule.ranks * per_rank
        for rank in self.made:
            for place in rank:
                section = self.section(place)
                if section.transfers:
                    back = place.part is not SectionKind.F
                    edge = place.stage - 1 if back else place.stage
                    first = place.first + section.first_transfer
                    lane[first : first + section.transfers] = transfers + 2 * edge + back
        return lane

    def _streams(self) -> tuple[IntArray, IntArray]:
        """The stream of every lane, and the lanes of every stream, by precedence."""
        ranks, kinds = self.schedule.ranks, len(ON_LINKS)
        edges = 2 * (self.schedule.stages - 1)
        stream_in_rank = np.concatenate([[0], np.repeat(1 + np.arange(self.links), kinds)])
        streams = 1 + self.links
        of_ranks = (np.arange(ranks)[:, None] * streams + stream_in_rank[None, :]).ravel()
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
            for place in rank:
                places.setdefault((place.stage, place.part), []).append(
                    (place.microbatch, place.first)
                )
        first = {key: self._by_microbatch(runs) for key, runs in places.items()}
        sources, targets = [], []
        for (stage, part), runs in places.items():
            needs = _Needs.of(self.scripts[stage][part])
            microbatches, begins = np.array(runs, dtype=np.int64).T.copy()
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
            source, target = self._prefetch_edges(rank)
            sources.append(source)
            targets.append(target)
        return np.concatenate(sources), np.concatenate(targets)

    def _by_microbatch(self, runs: list[tuple[int, int]]) -> IntArray:
        """First task of a section by microbatch; the same for all where it runs once a step."""
        first_of = np.full(self.schedule.microbatches, runs[0][1], dtype=np.int64)
        for microbatch, first in runs if len(runs) > 1 else ():
            first_of[microbatch] = first
        return first_of

    def _prefetch_edges(self, rank: Sequence[PlacedSection]) -> tuple[IntArray, IntArray]:
        """Dependencies of gathers on readers of earlier gathers, source and target.

        They keep prefetched parameters within PREFETCH_BYTES. A gather may always run while the one
        before it is in use.
        """
        rows = [
            (place.first + gather.first, place.first + gather.reader, gather.bytes)
            for place in rank
            for gather in self.section(place).gathers
        ]
        if len(rows) < 3:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        first, reader, size = np.array(rows, dtype=np.int64).T.copy()
        # a gather whose last reader comes after the next gather but one (a tied embedding) blocks
        # no other
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
    """The needs of a section's tasks, one row a need."""

    target: IntArray
    part: IntArray
    number: IntArray
    steps: IntArray

    @staticmethod
    def of(section: Section) -> _Needs:
        rows = [
            (target, need.part, need.number, need.steps)
            for target, needs in enumerate(section.needs)
            for need in needs
        ]
        return _Needs(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)

    @property
    def kinds(self) -> list[tuple[int, int]]:
        pairs = np.stack([self.part, self.steps], axis=1)
        return [(int(a), int(b)) for a, b in np.unique(pairs, axis=0)]
