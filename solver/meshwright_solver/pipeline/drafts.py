"""Drafts of the whole graph on the devices of a rank, and estimates of configurations from them.

1. for every number of ranks and of microbatches one plan with memory enough, on the coarsest
   mesh: what its configurations take at best (`optimistic_step.py`)
2. in that order, until the rest is no better even so: where that plan is short of memory, plans
   along its price, for each recompute policy; configurations are estimated
3. the most promising once more, on finer meshes
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from meshwright.schema import Infeasible, RecomputePolicy
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.pipeline.candidates import CutEstimate, Option
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.draft import Draft, Drafted, coarsest_axes, drafted
from meshwright_solver.pipeline.draft_plan import DraftPlan, mixed, undominated
from meshwright_solver.pipeline.estimates import Estimating
from meshwright_solver.pipeline.optimistic_step import outlook_ns
from meshwright_solver.pipeline.rank_placement import Placement, RankShare, parts_of
from meshwright_solver.pipeline.shared_context import Searches, SharedContext
from meshwright_solver.stage.recompute.candidates import FULL, POLICIES

Say = Callable[[str, int, int], None]

_AT_ONCE = 4  # chosen: numbers of ranks and microbatches drafted before the next are looked at
_SHIFTED = 1.05  # chosen: shifts of cuts between layers seldom gain so much
_WORTH = 1.1  # chosen: finer meshes seldom gain so much


@dataclass(slots=True)
class DraftGroup:
    """Configurations of the same ranks and microbatches, with what was drafted for them.

    axes: by share, of the finest of the drafts' meshes. free: the plan with memory enough, by
    share. at_best_ns: of any of the configurations, where that is known.
    """

    shares: Placement
    microbatches: int
    axes: list[int]
    configurations: list[Configuration] = field(default_factory=list)
    free: list[DraftPlan] = field(default_factory=list)
    ways: list[DraftPlan] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    at_best_ns: float = 0.0

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

    def draft(self, place: int, policy: RecomputePolicy, held: float, axes: int) -> Draft:
        groups = tuple(sorted(share.group for share in self.shares))
        return Draft(self.shares[place], groups, policy, self.microbatches, held, axes)

    def free_draft(self, place: int, policy: RecomputePolicy) -> Draft:
        axes = self.axes[place]
        return Draft(self.shares[place], (), policy, self.microbatches, self.most_held, axes)


class Drafts:
    """Makes drafts and estimates. refused: why a group has none; of those, the nearest to fit.
    coarse_only: shares on whose finer meshes plans would take too long."""

    def __init__(self, searches: Searches, say: Say) -> None:
        self.searches = searches
        self.request = searches.shared.request
        self.estimator = searches.shared.estimator
        self.say = say
        self.refused: Infeasible | None = None
        self.coarse_only: set[Placement] = set()
        self._known: dict[Draft, Drafted] = {}

    @property
    def policies(self) -> tuple[RecomputePolicy, ...]:
        """Those that are asked for, the one that repeats least first."""
        asked = self.request.recompute.policy
        return ("none", *POLICIES) if asked == "auto" else (asked,)

    def groups(self, wanted: Iterable[Configuration]) -> list[DraftGroup]:
        found: dict[tuple[Placement, int], DraftGroup] = {}
        for own in wanted:
            key = own.shares, own.microbatches
            if key not in found:
                found[key] = DraftGroup(*key, [self._coarsest(share) for share in own.shares])
            found[key].configurations.append(own)
        return list(found.values())

    def _coarsest(self, share: RankShare) -> int:
        (part, *_) = parts_of(self.request.topology, (share,))
        return coarsest_axes(self.request, part.topology)

    def look(self, groups: Sequence[DraftGroup], deadline: Deadline) -> list[DraftGroup]:
        """The groups that there was time for, the best at best first."""
        wanted = [own.free_draft(place, self.policies[0]) for own in groups
                  for place in range(len(own.shares))]  # fmt: skip
        made = iter(self.made(wanted, deadline))
        looked = []
        for own in groups:
            found = list(islice(made, len(own.shares)))
            if len(found) < len(own.shares):
                break
            looked.append(own)
            own.at_best_ns = np.inf
            for one in found:
                if isinstance(one, tuple):
                    own.free += one
                elif one is not None and self._is_nearer(one):
                    self._refuse(own, one)
            if len(own.free) == len(own.shares):
                own.at_best_ns = min(outlook_ns(c, own.free[0]) for c in own.configurations)
            if deadline.is_over():
                break
        return sorted(looked, key=lambda own: own.at_best_ns)

    def begin(
        self, groups: Sequence[DraftGroup], deadline: Deadline, enough: float = np.inf
    ) -> list[DraftGroup]:
        """First drafts of groups in their order, and their options, until so many have some or the
        rest is no better at best; those that were drafted."""
        done: list[DraftGroup] = []
        while len(done) < len(groups) and not deadline.is_over() and enough > 0:
            best_ns = min((own.ns for own in done), default=np.inf)
            rest = groups[len(done) : len(done) + _AT_ONCE]
            rest = [own for own in rest if own.at_best_ns <= _WORTH * best_ns]
            if not rest or rest[0].at_best_ns == np.inf:
                break
            self._draft(rest, deadline)
            done += rest
            enough -= sum(bool(own.options) for own in rest)
        return done

    def _draft(self, groups: Sequence[DraftGroup], deadline: Deadline) -> None:
        easy = [own for own in groups if not self._is_tight(own)]
        for own in easy:
            own.ways = list(own.free)
        self.estimate(easy, deadline)
        tight = [own for own in groups if len(own.options) < len(own.configurations)]
        for own in tight:
            own.ways = []
        wanted = [
            (own, own.draft(place, policy, own.most_held, axes))
            for own in tight
            for place, axes in enumerate(own.axes)
            for policy in self.policies
        ]
        self._keep(wanted, deadline)
        self.estimate(tight, deadline)

    def _is_tight(self, own: DraftGroup) -> bool:
        """Whether there could be other plans of its stages in the memory there is."""
        if not own.free:
            return True
        (part, *_) = parts_of(self.request.topology, own.shares[:1])
        pool = part.topology.device.memory_bytes * self.estimator.usable * own.ranks
        profile = own.free[0].profile
        held = profile.static_bytes.sum() + own.most_held * profile.saved_bytes.sum()
        return bool(held + own.ranks * profile.passing_bytes.max(initial=0.0) > FULL * pool)

    def _keep(self, wanted: Sequence[tuple[DraftGroup, Draft]], deadline: Deadline) -> None:
        """Make drafts of groups, as far as there is time, and add them to their ways."""
        none: list[tuple[DraftGroup, Infeasible | None]] = []
        changed: list[DraftGroup] = []
        drafts = [draft for _, draft in wanted]
        for (own, draft), made in zip(wanted, self.made(drafts, deadline), strict=False):
            if not isinstance(made, tuple):
                none.append((own, made))
                continue
            if not made:
                self.coarse_only.add(own.shares)
                continue
            place = own.shares.index(draft.share)
            own.axes[place] = max(own.axes[place], draft.axes)
            own.ways += mixed(made)
            changed.append(own)
            if deadline.is_over():
                break
        for own in changed:
            own.ways = [
                way
                for share in own.shares
                for way in undominated([way for way in own.ways if way.group == share.group])
            ]
        for own, why in none:
            if why is not None and not own.is_drafted and self._is_nearer(why):
                self._refuse(own, why)

    def sharpen(self, groups: Sequence[DraftGroup], deadline: Deadline) -> None:
        """More drafts for each group, and its options anew."""
        wanted = [
            (own, draft)
            for own in groups
            for place in range(len(own.shares))
            for draft in self._more(own, place)
        ]
        self._keep(wanted, deadline)
        self.estimate(groups, deadline)
        self._shift(groups, deadline)

    def _more(self, own: DraftGroup, place: int) -> Iterator[Draft]:
        """On finer meshes, with the policies that its best stages have. With more microbatches in
        flight where schedules that hold more have no room; with fewer, as the last ranks hold,
        where none has."""
        has, most = own.axes[place], float(own.most_held)
        axes = min(has + 1, self.request.budget.max_axes)
        best = min(own.options, key=lambda option: option.estimated_ns, default=None)
        in_flight = [most] if axes > has else []
        kinds = {option.configuration.schedule for option in own.options}
        if any(own.schedule not in kinds for own in own.configurations):
            in_flight.append(1.5 * most)
        if best is None:
            in_flight += [1.0, (1 + most) / 2]
        for policy in self.policies if best is None else best.policies:
            for held in dict.fromkeys(in_flight):
                yield own.draft(place, policy, held, axes)

    def estimate(self, groups: Sequence[DraftGroup], deadline: Deadline) -> None:
        """The groups' options, of the drafts there are."""
        for own in groups:
            own.options = []
        drafted = [own for own in groups if own.is_drafted]
        asked = [Estimating(tuple(own.ways), tuple(own.configurations)) for own in drafted]
        made = self.searches.fanned(_cuts, asked, deadline)
        for own, task, cuts in zip(drafted, asked, made, strict=False):
            own.options = self.estimator.options(task, cuts, max(own.axes))

    def _shift(self, groups: Sequence[DraftGroup], deadline: Deadline) -> None:
        """Shift the cuts of options that are near the best."""
        best_ns = min((own.ns for own in groups), default=np.inf)
        near = [
            (group, place, option)
            for group in groups
            for place, option in enumerate(group.options)
            if option.estimated_ns <= _SHIFTED * best_ns
        ]
        asked = [
            Estimating(tuple(group.ways), (option.configuration,), shift=True)
            for group, _, option in near
        ]
        made = self.searches.fanned(_cuts, asked, deadline)
        for (group, place, _), task, cuts in zip(near, asked, made, strict=False):
            for found in self.estimator.options(task, cuts, max(group.axes)):
                group.options[place] = found

    def tight_options(self, groups: Sequence[DraftGroup], most: int) -> list[Option]:
        """Where no cuts of any group seem to keep the memory."""
        found: list[Option] = []
        for group in groups:
            for own in group.configurations if group.is_drafted else ():
                if len(found) < most:
                    made = self.estimator.tight(tuple(group.ways), own, max(group.axes))
                    found += [] if made is None else [made]
        return found

    def _refuse(self, own: DraftGroup, why: Infeasible) -> None:
        detail = "no configuration found fits; closest: "
        detail += f"{own.ranks} pipeline ranks, {own.microbatches} microbatches: "
        detail += f"with the memory of all ranks together, {why.detail}"
        self.refused = why.model_copy(update={"detail": detail})

    def _is_nearer(self, why: Infeasible) -> bool:
        return self.refused is None or _missed(why) < _missed(self.refused)

    def made(self, drafts: Sequence[Draft], deadline: Deadline) -> Iterator[Drafted]:
        """In their order, each made once however often it is wanted."""
        new = [own for own in dict.fromkeys(drafts) if own not in self._known]
        results = zip(new, self.searches.fanned(_drafted, new, deadline), strict=False)
        for done, own in enumerate(drafts):
            if own not in self._known:
                again = f", recompute {own.policy}" if own.policy != "none" else ""
                phase = f"{own.share.ranks} ranks, {own.microbatches} microbatches{again}"
                self.say(phase, done, len(drafts))
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


def _drafted(shared: SharedContext, own: Draft, deadline: Deadline) -> Drafted:
    return drafted(shared.request, shared.anatomy, own, deadline)


def _cuts(shared: SharedContext, asked: Estimating, _: Deadline) -> list[CutEstimate | None]:
    return shared.estimator.cuts(asked)
