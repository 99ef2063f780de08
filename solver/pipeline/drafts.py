"""Drafts: plans of the whole graph on the devices of a rank, for estimates of configurations.

For a number of ranks and of microbatches there is one at first, on the coarsest mesh. What is
promising gets more: on finer meshes, and where memory binds with fewer microbatches in flight, as
the last ranks of a pipeline have them, and with more, as interleaved schedules do.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice

import numpy as np

from costmodel.calibrations import default_calibration
from meshwright.schema import Infeasible, Request
from solver.deadline import Deadline
from solver.pipeline.coarse import Coarse, Draft, coarse, coarsest_axes
from solver.pipeline.configurations import Configuration
from solver.pipeline.estimate import Estimate
from solver.pipeline.fan import fanned
from solver.pipeline.layers import layer_begins
from solver.pipeline.options import Option, option, tight_option
from solver.pipeline.pace import Pace
from solver.pipeline.placement import Placement, Share, parts_of, sends_ns
from solver.pipeline.stage_graph import Anatomy

Drafted = Coarse | Infeasible | None
Say = Callable[[str, int, int], None]


@dataclass(slots=True)
class Group:
    """Configurations of the same ranks and microbatches, with what was drafted for them.

    axes: by share, of the finest of the drafts' meshes.
    """

    shares: Placement
    microbatches: int
    axes: list[int]
    configurations: list[Configuration] = field(default_factory=list)
    ways: list[Coarse] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)

    @property
    def ns(self) -> float:
        return min((own.estimated_ns for own in self.options), default=np.inf)

    @property
    def ranks(self) -> int:
        return sum(share.ranks for share in self.shares)

    @property
    def most_held(self) -> int:
        """Of how many microbatches the first rank of 1f1b holds something."""
        return min(self.ranks, self.microbatches)

    @property
    def is_drafted(self) -> bool:
        """Whether there is something of each share."""
        return {way.group for way in self.ways} == {share.group for share in self.shares}

    def is_tight(self, share: Share) -> bool:
        first = next((way for way in self.ways if way.group == share.group), None)
        return first is None or first.is_tight

    def draft(self, place: int, held: float, axes: int) -> Draft:
        groups = tuple(sorted(share.group for share in self.shares))
        return Draft(self.shares[place], groups, self.microbatches, held, axes)


class Drafts:
    """Makes drafts and estimates. refused: why a group has none; of those, the nearest to fit."""

    def __init__(
        self, request: Request, anatomy: Anatomy, executor: Executor | None, say: Say
    ) -> None:
        self.request = request
        self.anatomy = anatomy
        self.executor = executor
        self.say = say
        self.layers = layer_begins(anatomy)
        self.layers = self.layers[self.layers > 0]
        self.usable = 1 - request.setup.memory_reserve
        self.calibration = request.calibration or default_calibration()
        self.refused: Infeasible | None = None
        self._known: dict[Draft, Drafted] = {}
        self._paces: dict[tuple[str, int, int, int], Pace] = {}

    def groups(self, wanted: Iterable[Configuration]) -> list[Group]:
        found: dict[tuple[Placement, int], Group] = {}
        for own in wanted:
            key = own.shares, own.microbatches
            if key not in found:
                found[key] = Group(*key, [self._coarsest(share) for share in own.shares])
            found[key].configurations.append(own)
        return list(found.values())

    def _coarsest(self, share: Share) -> int:
        (part, *_) = parts_of(self.request.topology, (share,))
        return coarsest_axes(self.request, part.topology)

    def begin(self, groups: Sequence[Group], deadline: Deadline, enough: float = np.inf) -> int:
        """The first draft of each group, and its options, until so many groups have some; how many
        groups there was time for."""
        drafts = [self._first_drafts(own) for own in groups]
        made = iter(self.made([draft for own in drafts for draft in own], deadline))
        done = 0
        for own, of_shares in zip(groups, drafts, strict=True):
            found = list(islice(made, len(of_shares)))
            if len(found) < len(of_shares):
                break
            done += 1
            for one in found:
                self._keep(own, one)
            self.estimate(own, shift=False)
            enough -= bool(own.options)
            if deadline.is_over() or enough <= 0:
                break
        return done

    def _first_drafts(self, own: Group) -> list[Draft]:
        return [own.draft(place, own.most_held, axes) for place, axes in enumerate(own.axes)]

    def sharpen(self, groups: Sequence[Group], deadline: Deadline) -> None:
        """More drafts for each group, and its options anew."""
        wanted = [
            (own, place, draft)
            for own in groups
            for place in range(len(own.shares))
            for draft in self._more(own, place)
        ]
        drafts = [draft for _, _, draft in wanted]
        for (own, place, draft), found in zip(wanted, self.made(drafts, deadline), strict=False):
            own.axes[place] = max(own.axes[place], draft.axes)
            self._keep(own, found)
            if deadline.is_over():
                break
        for own in groups:
            self.estimate(own, shift=True)

    def _more(self, own: Group, place: int) -> list[Draft]:
        finest = self.request.budget.max_axes
        has, most = own.axes[place], own.most_held
        axes = min(has + 1, finest)
        if not own.is_tight(own.shares[place]):
            return [own.draft(place, most, axes)] if axes > has else []
        in_flight = [1.0, (1 + most) / 2, float(most)]
        kinds = {option.configuration.schedule for option in own.options}
        if any(own.schedule not in kinds for own in own.configurations):
            in_flight.append(1.5 * most)
        found = [own.draft(place, held, axes) for held in dict.fromkeys(in_flight)]
        return [draft for draft in found if axes > has or draft.held != most]

    def estimate(self, group: Group, *, shift: bool) -> None:
        """The group's options, of the drafts there are."""
        group.options = []
        if not group.is_drafted:
            return
        for own in group.configurations:
            estimate, ops = self._estimate(group, own), len(self.anatomy.order)
            found = option(own, estimate, self.layers, ops, max(group.axes), shift=shift)
            if found is not None:
                group.options.append(found)

    def tight_options(self, groups: Sequence[Group], most: int) -> list[Option]:
        """Where no cuts of any group seem to keep the memory."""
        found: list[Option] = []
        for group in groups:
            for own in group.configurations if group.is_drafted else ():
                if len(found) < most:
                    estimate, ops = self._estimate(group, own), len(self.anatomy.order)
                    made = tight_option(own, estimate, ops, max(group.axes))
                    found += [] if made is None else [made]
        return found

    def _estimate(self, group: Group, own: Configuration) -> Estimate:
        key = own.schedule, own.ranks, own.microbatches, own.stages_per_rank
        if key not in self._paces:
            self._paces[key] = Pace.of(*key)
        parts = parts_of(self.request.topology, own.shares)
        pace, ways = self._paces[key], tuple(group.ways)
        return Estimate(
            ways,
            pace,
            np.array([part.topology.device.memory_bytes * self.usable for part in parts]),
            np.array([part.group for part in parts]),
            sends_ns(
                parts,
                pace.runs[-1].rank_of,
                ways[0].crossing_bytes,
                self.calibration.link_efficiency,
            ),
        )

    def _keep(self, own: Group, found: Drafted) -> None:
        if isinstance(found, Coarse):
            own.ways.append(found)
        elif found is not None and not own.is_drafted and self._is_nearer(found):
            detail = "no configuration found fits; closest: "
            detail += f"{own.ranks} pipeline ranks, {own.microbatches} microbatches: "
            detail += f"with the memory of all ranks together, {found.detail}"
            self.refused = found.model_copy(update={"detail": detail})

    def _is_nearer(self, why: Infeasible) -> bool:
        return self.refused is None or _missed(why) < _missed(self.refused)

    def made(self, drafts: Sequence[Draft], deadline: Deadline) -> Iterator[Drafted]:
        """In their order, each made once however often it is wanted."""
        if self.executor is None:
            work = partial(_drafted, self.request, self.anatomy)
        else:
            work = partial(_drafted_elsewhere, pickle.dumps(self.request))
        new = [own for own in dict.fromkeys(drafts) if own not in self._known]
        results = zip(new, fanned(work, new, deadline, self.executor), strict=False)
        for done, own in enumerate(drafts):
            if own not in self._known:
                ranks = f"{own.share.ranks} ranks, {own.microbatches} microbatches"
                self.say(ranks, done, len(drafts))
                found = list(islice(results, 1))
                if not found:
                    return
                self._known.update(found)
            yield self._known[own]


def _missed(why: Infeasible) -> float:
    """What is needed over what there is; infinite where it is not the memory that is missing."""
    if not why.needed_bytes or not why.available_bytes:
        return np.inf
    return why.needed_bytes / why.available_bytes


def _drafted(request: Request, anatomy: Anatomy, own: Draft, deadline: Deadline) -> Drafted:
    return coarse(request, anatomy, own, deadline)


def _drafted_elsewhere(packed: bytes, own: Draft, deadline: Deadline) -> Drafted:
    """In another process, which unpacks a request once for all its drafts."""
    return coarse(*_unpacked(packed), own, deadline)


@lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> tuple[Request, Anatomy]:
    request: Request = pickle.loads(packed)  # of the process that asks
    return request, Anatomy(request.graph)
