"""Drafts of the whole graph on the devices of a rank, and estimates of configurations from them.

1. For every number of ranks and of microbatches: one plan with unlimited memory, on the coarsest
   mesh. It gives the optimistic step of its configurations (`optimistic_step.py`).
2. In that order, until the rest cannot be better: estimates of configurations. If the plan exceeds
   memory, plans along the price of memory come first, for each recompute policy.
3. For the most promising: drafts and estimates on finer meshes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from meshwright.schema import Infeasible, RecomputePolicy
from meshwright_solver.common.deadline import ENDLESS, Deadline
from meshwright_solver.pipeline.candidates import CutEstimate, Option
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.draft import Draft, Drafted, coarsest_axes, plan_draft
from meshwright_solver.pipeline.draft_group import FINER, DraftGroup
from meshwright_solver.pipeline.draft_plan import mixed, undominated
from meshwright_solver.pipeline.estimates import EstimateTask
from meshwright_solver.pipeline.optimistic_step import outlook_ns
from meshwright_solver.pipeline.rank_placement import Placement, RankShare, parts_of
from meshwright_solver.pipeline.shared_context import Searches, SharedContext
from meshwright_solver.stage.recompute.candidates import FULL, POLICIES

Say = Callable[[str, int, int], None]

_AT_ONCE = 4  # chosen: groups in one batch of drafts
_UNSURE = 1.04  # measured: estimates are up to 4 % too low (gpt3-175b, 1,024 A100)
_SHIFTED = 1.05  # chosen: shifts of cuts between layers seldom gain so much
_MORE = 1.25  # chosen: so much more is too much in groups of other ranks too
LEAST_GAIN = 0.005  # chosen: as `simplicity`: what gains less is not searched for
_FULL: RecomputePolicy = "full"


class Drafts:
    """The drafts and estimates of a request.

    refused: the reason for no draft, of the group nearest to fit. coarse_only: placements whose
    tables on finer meshes are too large.
    """

    def __init__(self, searches: Searches, say: Say, ends: Deadline = ENDLESS) -> None:
        """ends: of the whole search. Drafts may have less time, but those that are made in time are
        estimated."""
        self.searches = searches
        self._ends = ends
        self.request = searches.shared.request
        self.estimator = searches.shared.estimator
        self.say = say
        self.refused: Infeasible | None = None
        self.coarse_only: set[Placement] = set()
        self._known: dict[Draft, Drafted] = {}
        self._has_drafts = False
        self._held_too_much: dict[RecomputePolicy, float] = {}

    @property
    def policies(self) -> tuple[RecomputePolicy, ...]:
        """The recompute policies of the request, the lightest first."""
        policy = self.request.recompute.policy
        return ("none", *POLICIES) if policy == "auto" else (policy,)

    def groups(self, wanted: Iterable[Configuration]) -> list[DraftGroup]:
        group_of: dict[tuple[Placement, int], DraftGroup] = {}
        for configuration in wanted:
            key = configuration.shares, configuration.microbatches
            if key not in group_of:
                group_of[key] = DraftGroup(
                    *key, [self._coarsest(share) for share in configuration.shares]
                )
            group_of[key].configurations.append(configuration)
        return list(group_of.values())

    def _coarsest(self, share: RankShare) -> int:
        (part, *_) = parts_of(self.request.topology, (share,))
        return coarsest_axes(self.request, part.topology)

    def look(
        self,
        groups: Sequence[DraftGroup],
        deadline: Deadline,
        beaten_ns: Callable[[], float] = lambda: np.inf,
    ) -> list[DraftGroup]:
        """The groups with an optimistic step within the time, the fastest first.

        beaten_ns: a known step; it is called once the first groups are due. Groups that cannot be
        better are left out without a draft: the work of the graph bounds them, and groups of fewer
        microbatches do.
        """
        looked: list[DraftGroup] = []
        before: dict[Placement, DraftGroup] = {}
        waiting = sorted(groups, key=lambda group: group.microbatches)
        while waiting and not deadline.is_over():
            due: dict[Placement, DraftGroup] = {}
            for group in waiting:
                due.setdefault(group.shares, group)
            waiting = [group for group in waiting if group is not due[group.shares]]
            least_ns = worth_ns(beaten_ns())
            wanted = []
            for group in due.values():
                self._set_floors(group)
                if group.may_take(least_ns, before.get(group.shares)):
                    wanted.append(group)
            some = self._look_at(wanted, deadline)
            looked += some
            before.update((group.shares, group) for group in some if group.free)
        return sorted(looked, key=lambda group: (group.at_best_ns, group.ranks))

    def _set_floors(self, group: DraftGroup) -> None:
        topology = self.request.topology
        works = [] if topology.beside else self.searches.shared.work.at(group.microbatches)
        for work in works:
            group.set_floors(work, topology.device_count)

    def _look_at(self, groups: Sequence[DraftGroup], deadline: Deadline) -> list[DraftGroup]:
        wanted = [group.free_draft(place, self.policies[0]) for group in groups
                  for place in range(len(group.shares))]  # fmt: skip
        results = iter(self.results(wanted, deadline))
        looked = []
        for group in groups:
            outcomes = list(islice(results, len(group.shares)))
            if len(outcomes) < len(group.shares):
                break
            looked.append(group)
            group.at_best_ns = np.inf
            for outcome in outcomes:
                if isinstance(outcome, tuple):
                    group.free += outcome
                elif outcome is not None and self._is_nearer(outcome):
                    self._record_refusal(group, outcome)
            if len(group.free) == len(group.shares):
                group.at_best_ns = min(outlook_ns(c, group.free[0]) for c in group.configurations)
            if deadline.is_over():
                break
        return looked

    def begin(
        self,
        groups: Sequence[DraftGroup],
        deadline: Deadline,
        enough: float = np.inf,
        beaten_ns: float = np.inf,
        estimated: Callable[[Sequence[DraftGroup]], None] = lambda _: None,
    ) -> list[DraftGroup]:
        """Draft and estimate groups in their order; return the drafted groups.

        It ends when `enough` groups have options, or the rest cannot be better than another one or
        than a step of `beaten_ns`. estimated: called with the groups of each batch.
        """
        done: list[DraftGroup] = []
        waiting = [group for group in groups if group.at_best_ns < np.inf]
        while waiting and not deadline.is_over() and enough > 0:
            best_ns = min([beaten_ns, *(_UNSURE * group.ns for group in done)])
            waiting = [group for group in waiting if group.may_take(worth_ns(best_ns))]
            rest, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
            for group in rest:
                group.keep(worth_ns(best_ns))
            self._draft(rest, deadline, best_ns)
            estimated(rest)
            done += rest
            enough -= sum(bool(group.options) for group in rest)
        return done

    def _draft(self, groups: Sequence[DraftGroup], deadline: Deadline, beaten_ns: float) -> None:
        """Draft and estimate groups. beaten_ns: the best estimate of others."""
        easy = [group for group in groups if not self._is_tight(group)]
        for group in easy:
            group.ways = list(group.free)
        self.estimate(easy)
        tight = [group for group in groups if len(group.options) < len(group.configurations)]
        for group in tight:
            group.ways = []
        *lighter, lean = [policy for policy in self.policies if policy != _FULL] or self.policies
        self._draft_within_memory(tight, lean, deadline)
        self._add(_drafts_of([group for group in tight if group.is_drafted], lighter), deadline)
        self.estimate(tight)
        if lean != self.policies[-1]:
            best_ns = min([beaten_ns, *(group.ns for group in groups)])
            more = [group for group in tight if group.gains_by_full(FINER * best_ns)]
            self._draft_within_memory(more, _FULL, deadline)
            self.estimate(more)
        self._has_drafts |= any(group.is_drafted for group in groups)
        if tight and not self._has_drafts:
            self._draft_thoroughly(tight, deadline)
        for group in tight:
            if group.options and not group.is_drafted:
                group.ways = list(group.free)  # some of its configurations are not short of memory

    def _draft_within_memory(
        self, groups: Sequence[DraftGroup], policy: RecomputePolicy, deadline: Deadline
    ) -> None:
        """Draft groups, except those whose ranks hold more of the batch than fits in others."""
        most = self._held_too_much.get(policy, np.inf)
        before = [len(group.ways) for group in groups]
        wanted = [group for group in groups if group.held_share < most or len(group.shares) > 1]
        self._add(_drafts_of(wanted, [policy]), deadline)
        failed = [
            _MORE * group.held_share
            for group, ways in zip(groups, before, strict=True)
            if group in wanted and len(group.ways) == ways and not deadline.is_over()
        ]
        self._held_too_much[policy] = min([most, *failed])

    def _draft_thoroughly(self, groups: Sequence[DraftGroup], deadline: Deadline) -> None:
        """Draft groups by the stage search, or find out what they need."""
        wanted = _drafts_of(groups, self.policies)
        self._add(_thorough(wanted), deadline)
        self.estimate(groups)
        self._has_drafts = any(group.is_drafted for group in groups)

    def _is_tight(self, group: DraftGroup) -> bool:
        """Whether memory may constrain the plans of the group's stages."""
        if not group.free:
            return True
        (part, *_) = parts_of(self.request.topology, group.shares[:1])
        pool = part.topology.device.memory_bytes * self.estimator.usable * group.ranks
        profile = group.free[0].profile
        held = profile.static_bytes.sum() + group.most_held * profile.saved_bytes.sum()
        return bool(held + group.ranks * profile.passing_bytes.max(initial=0.0) > FULL * pool)

    def _add(self, wanted: Sequence[tuple[DraftGroup, Draft]], deadline: Deadline) -> None:
        """Add the draft plans of these drafts to their groups, within the time."""
        none: list[tuple[DraftGroup, Infeasible | None]] = []
        changed: list[DraftGroup] = []
        drafts = [draft for _, draft in wanted]
        for (group, draft), outcome in zip(wanted, self.results(drafts, deadline), strict=False):
            if not isinstance(outcome, tuple):
                none.append((group, outcome))
                continue
            if not outcome:
                self.coarse_only.add(group.shares)
                continue
            place = group.shares.index(draft.share)
            group.axes[place] = max(group.axes[place], draft.axes)
            group.ways += mixed(outcome)
            changed.append(group)
            if deadline.is_over():
                break
        for group in changed:
            group.ways = [
                way
                for share in group.shares
                for way in undominated([way for way in group.ways if way.group == share.group])
            ]
        for group, why in none:
            if why is not None and not group.is_drafted and self._is_nearer(why):
                self._record_refusal(group, why)

    def sharpen(self, groups: Sequence[DraftGroup], deadline: Deadline) -> None:
        """Add drafts on finer meshes to each group and update its options."""
        wanted = [
            (group, draft)
            for group in groups
            for place in range(len(group.shares))
            for draft in self._further_drafts(group, place)
        ]
        if not self._has_drafts:
            wanted = _thorough(wanted)
        self._add(wanted, deadline)
        self.estimate(groups)
        self._shift(groups)

    def _further_drafts(self, group: DraftGroup, place: int) -> Iterator[Draft]:
        """Further drafts of a share: on finer meshes, with the policies of the group's best stages.

        They have more microbatches in flight if a schedule with more has no option, and fewer, as
        the last ranks have, if no schedule has one.
        """
        has, most = group.axes[place], float(group.most_held)
        axes = min(has + 1, self.request.budget.max_axes)
        best = min(group.options, key=lambda option: option.estimated_ns, default=None)
        in_flight = [most] if axes > has else []
        kinds = {option.configuration.schedule for option in group.options}
        if any(configuration.schedule not in kinds for configuration in group.configurations):
            in_flight.append(1.5 * most)
        if best is None:
            in_flight += [1.0, (1 + most) / 2]
        for policy in self.policies if best is None else best.policies:
            for held in dict.fromkeys(in_flight):
                yield group.draft(place, policy, held, axes)

    def estimate(self, groups: Sequence[DraftGroup]) -> None:
        """Set the options of groups from their current drafts."""
        drafted = [group for group in groups if group.is_drafted]
        tasks = [EstimateTask(tuple(group.ways), tuple(group.configurations)) for group in drafted]
        results = self.searches.fanned(_cuts, tasks, self._ends)
        for group, task, cuts in zip(drafted, tasks, results, strict=False):
            group.options = self.estimator.options(task, cuts, max(group.axes))

    def _shift(self, groups: Sequence[DraftGroup]) -> None:
        """Improve the cuts of options near the best."""
        best_ns = min((group.ns for group in groups), default=np.inf)
        near = [
            (group, place, option)
            for group in groups
            for place, option in enumerate(group.options)
            if option.estimated_ns <= _SHIFTED * best_ns
        ]
        tasks = [
            EstimateTask(tuple(group.ways), (option.configuration,), shift=True)
            for group, _, option in near
        ]
        results = self.searches.fanned(_cuts, tasks, self._ends)
        for (group, place, _), task, cuts in zip(near, tasks, results, strict=False):
            for shifted in self.estimator.options(task, cuts, max(group.axes)):
                group.options[place] = shifted

    def tight_options(self, groups: Sequence[DraftGroup], most: int) -> list[Option]:
        """Up to `most` options with the leanest cuts, for requests without cuts that fit."""
        options: list[Option] = []
        for group in groups:
            for configuration in group.configurations if group.is_drafted else ():
                if len(options) < most:
                    option = self.estimator.tight(tuple(group.ways), configuration, max(group.axes))
                    options += [] if option is None else [option]
        return options

    def _record_refusal(self, group: DraftGroup, why: Infeasible) -> None:
        detail = "no configuration found fits; closest: "
        detail += f"{group.ranks} pipeline ranks, {group.microbatches} microbatches: "
        detail += f"with the memory of all ranks together, {why.detail}"
        self.refused = why.model_copy(update={"detail": detail})

    def _is_nearer(self, why: Infeasible) -> bool:
        return self.refused is None or _memory_ratio(why) < _memory_ratio(self.refused)

    def results(self, drafts: Sequence[Draft], deadline: Deadline) -> Iterator[Drafted]:
        """The results of drafts in their order, each computed once and cached.

        They end where the time is over and a result is not known.
        """
        new = [draft for draft in dict.fromkeys(drafts) if draft not in self._known]
        computed = zip(new, self.searches.fanned(_plan_draft, new, deadline), strict=False)
        for done, draft in enumerate(drafts):
            if draft not in self._known:
                if deadline.is_over():
                    return
                again = f", recompute {draft.policy}" if draft.policy != "none" else ""
                phase = f"{draft.share.ranks} ranks, {draft.microbatches} microbatches{again}"
                self.say(phase, done, len(drafts))
                head = list(islice(computed, 1))
                if not head:
                    return
                self._known.update(head)
            yield self._known[draft]


def worth_ns(ns: float) -> float:
    """The step that a configuration must stay below to be worth a draft. ns: of a known plan."""
    return (1 - LEAST_GAIN) * ns


def _drafts_of(
    groups: Sequence[DraftGroup], policies: Sequence[RecomputePolicy]
) -> list[tuple[DraftGroup, Draft]]:
    """The drafts on the meshes of the groups with these policies."""
    return [
        (group, group.draft(place, policy, group.most_held, axes))
        for group in groups
        for place, axes in enumerate(group.axes)
        for policy in policies
    ]


def _thorough(wanted: Sequence[tuple[DraftGroup, Draft]]) -> list[tuple[DraftGroup, Draft]]:
    """The drafts, by the stage search where no price of memory makes a plan fit."""
    return [(group, replace(draft, is_thorough=True)) for group, draft in wanted]


def _memory_ratio(why: Infeasible) -> float:
    """Needed over available bytes; infinite for other constraints than memory."""
    if not why.needed_bytes or not why.available_bytes:
        return np.inf
    return why.needed_bytes / why.available_bytes


def _plan_draft(shared: SharedContext, draft: Draft, deadline: Deadline) -> Drafted:
    return plan_draft(shared.request, shared.anatomy, draft, deadline)


def _cuts(shared: SharedContext, task: EstimateTask, _: Deadline) -> list[CutEstimate | None]:
    return shared.estimator.cuts(task)
