"""Drafts: plans of the whole graph on the devices of a rank, for estimates of configurations.

For a number of ranks and of microbatches there is one at first, on the coarsest mesh. What is
promising gets more: on finer meshes, and where memory binds with fewer microbatches in flight, as
the last ranks of a pipeline have them, and with more, as interleaved schedules do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

import numpy as np

from meshwright.schema import Infeasible, Request
from solver.deadline import Deadline
from solver.pipeline.coarse import Coarse, Draft, coarse, coarsest_axes
from solver.pipeline.configurations import Configuration
from solver.pipeline.estimate import Estimate
from solver.pipeline.fan import fanned
from solver.pipeline.layers import layer_begins
from solver.pipeline.options import Option, option, tight_option
from solver.pipeline.pace import Pace
from solver.pipeline.split import split
from solver.pipeline.stage_graph import Anatomy

Drafted = Coarse | Infeasible | None
Say = Callable[[str, int, int], None]


@dataclass(slots=True)
class Group:
    """Configurations of so many ranks and microbatches, with what was drafted for them.

    axes: of the finest of the drafts' meshes.
    """

    ranks: int
    microbatches: int
    axes: int
    configurations: list[Configuration] = field(default_factory=list)
    ways: list[Coarse] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)

    @property
    def ns(self) -> float:
        return min((own.estimated_ns for own in self.options), default=np.inf)

    @property
    def is_tight(self) -> bool:
        return not self.ways or self.ways[0].is_tight

    def draft(self, held: float, axes: int) -> Draft:
        return Draft(self.ranks, self.microbatches, held, axes)


class Drafts:
    """Makes drafts and estimates. refused: why a group has none, of the last that has none."""

    def __init__(
        self, request: Request, anatomy: Anatomy, executor: Executor | None, say: Say
    ) -> None:
        self.request = request
        self.anatomy = anatomy
        self.executor = executor
        self.say = say
        self.layers = layer_begins(anatomy)
        self.layers = self.layers[self.layers > 0]
        self.limit_bytes = request.topology.device.memory_bytes * (1 - request.setup.memory_reserve)
        self.refused: Infeasible | None = None
        self._paces: dict[tuple[str, int, int, int], Pace] = {}

    def groups(self, wanted: Iterable[Configuration]) -> list[Group]:
        found: dict[tuple[int, int], Group] = {}
        for own in wanted:
            key = own.ranks, own.microbatches
            if key not in found:
                part, _ = split(self.request.topology, own.ranks)
                found[key] = Group(*key, coarsest_axes(self.request, part))
            found[key].configurations.append(own)
        return list(found.values())

    def begin(self, groups: Sequence[Group], deadline: Deadline) -> int:
        """The first draft of each group, and its options; how many there was time for."""
        drafts = [own.draft(min(own.ranks, own.microbatches), own.axes) for own in groups]
        done = 0
        for own, found in zip(groups, self._made(drafts, deadline), strict=False):
            done += 1
            self._keep(own, found)
            self.estimate(own, shift=False)
            if deadline.is_over():
                break
        return done

    def sharpen(self, groups: Sequence[Group], deadline: Deadline) -> None:
        """More drafts for each group, and its options anew."""
        wanted = [(own, draft) for own in groups for draft in self._more(own)]
        drafts = [draft for _, draft in wanted]
        for (own, draft), found in zip(wanted, self._made(drafts, deadline), strict=False):
            own.axes = max(own.axes, draft.axes)
            self._keep(own, found)
            if deadline.is_over():
                break
        for own in groups:
            self.estimate(own, shift=True)

    def _more(self, own: Group) -> list[Draft]:
        finest = self.request.budget.max_axes
        axes, most = min(own.axes + 1, finest), min(own.ranks, own.microbatches)
        if not own.is_tight:
            return [own.draft(most, axes)] if axes > own.axes else []
        in_flight = [1.0, (1 + most) / 2, float(most)]
        kinds = {option.configuration.schedule for option in own.options}
        if any(own.schedule not in kinds for own in own.configurations):
            in_flight.append(1.5 * most)
        found = [own.draft(held, axes) for held in dict.fromkeys(in_flight)]
        return [draft for draft in found if axes > own.axes or draft.held != most]

    def estimate(self, group: Group, *, shift: bool) -> None:
        """The group's options, of the drafts there are."""
        group.options = []
        if not group.ways:
            return
        for own in group.configurations:
            estimate, ops = self._estimate(group, own), len(self.anatomy.order)
            found = option(own, estimate, self.layers, ops, group.axes, shift=shift)
            if found is not None:
                group.options.append(found)

    def tight_options(self, groups: Sequence[Group], most: int) -> list[Option]:
        """Where no cuts of any group seem to keep the memory."""
        found: list[Option] = []
        for group in groups:
            for own in group.configurations if group.ways else ():
                if len(found) < most:
                    estimate, ops = self._estimate(group, own), len(self.anatomy.order)
                    made = tight_option(own, estimate, ops, group.axes)
                    found += [] if made is None else [made]
        return found

    def _estimate(self, group: Group, own: Configuration) -> Estimate:
        key = own.schedule, own.ranks, own.microbatches, own.stages_per_rank
        if key not in self._paces:
            self._paces[key] = Pace.of(*key)
        return Estimate(tuple(group.ways), self._paces[key], self.limit_bytes)

    def _keep(self, own: Group, found: Drafted) -> None:
        if isinstance(found, Coarse):
            own.ways.append(found)
        elif found is not None and not own.ways:
            detail = f"{own.ranks} pipeline ranks, {own.microbatches} microbatches: "
            detail += f"with the memory of all ranks together, {found.detail}"
            self.refused = found.model_copy(update={"detail": detail})

    def _made(self, drafts: Sequence[Draft], deadline: Deadline) -> Iterator[Drafted]:
        anatomy = self.anatomy if self.executor is None else None
        work = partial(drafted, self.request, anatomy)
        results = fanned(work, drafts, deadline, self.executor)
        for done, own in enumerate(drafts):
            self.say(f"{own.ranks} ranks, {own.microbatches} microbatches", done, len(drafts))
            found = list(islice(results, 1))
            if not found:
                return
            yield found[0]


def drafted(request: Request, anatomy: Anatomy | None, own: Draft, deadline: Deadline) -> Drafted:
    """One draft; anatomy: of the request's graph, None to make it anew (in another process)."""
    return coarse(request, anatomy or Anatomy(request.graph), own, deadline)
