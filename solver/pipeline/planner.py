"""The search for pipelines: degrees first, then every stage.

    1. for every number of pipeline ranks and of microbatches, the whole graph on the devices of one
       rank, as coarse as its levels, with memory enough: what configurations take at best, by sums
       over its ops (`drafts.py`, `draft.py`, `outlook.py`)
    2. in that order, while it can be worth it: the same along the price of memory, for every
       recompute policy; for every schedule, cuts that balance what ops take and hold (`cuts.py`)
       and how long the schedule then takes (`passes.py`), each stage as in the fastest plan that it
       has room for: an estimate of each configuration (`coarse.py`, `estimate.py`, `options.py`)
    3. the same again of the most promising numbers, with finer meshes
    4. the most promising configurations are planned stage by stage, stages that are alike once, and
       judged (`price.py`)
    5. the best of them is planned again on the finest meshes, and stages that do something again
       with less of it where there is room (`lighter.py`): the answer

Drafts, and stages, are searched independently of each other, by whatever executor there is
(`fan.py`).

Every stage's plan keeps the memory of its devices with the microbatches that its place in the
schedule holds. The answer's bound is that of its work alone, for these cuts and this schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

import numpy as np

from costmodel.calibrations import calibration_for
from meshwright.schema import (
    Answer,
    Calibration,
    Infeasible,
    InvalidInput,
    Plan,
    Progress,
    Request,
    Topology,
)
from meshwright.schema.pipelining.schedules import schedule
from solver.answer import NOT_ENDED
from solver.deadline import Deadline, Stop, never
from solver.keeping import Best, Keep, unwanted
from solver.pipeline.alone import Alone, check_on_groups
from solver.pipeline.configurations import Configuration, configurations
from solver.pipeline.document import document
from solver.pipeline.draft import coarsest_axes, on_meshes
from solver.pipeline.drafts import Drafts, Group
from solver.pipeline.least_step import least_step_ns
from solver.pipeline.lighter import Lightening
from solver.pipeline.options import Option, all_considered
from solver.pipeline.refusal import closest, nothing_fits
from solver.pipeline.scout import scouted
from solver.pipeline.shared import Searches, Shared
from solver.pipeline.stage_graph import Anatomy
from solver.pipeline.stage_plans import StageWishes, plan_stages_that_fit
from solver.pipeline.staged import Staged
from solver.stage_planner import Report, check, microbatch_counts, states_alone

_TIGHT = 3  # chosen: the same where none seems to fit
_PLANNED = 3  # chosen: configurations that are planned stage by stage; about a second each
_COARSE_TOLERANCE = 1e-2  # chosen: of stages' plans that choose between configurations
_FAR_AHEAD = 1.1  # chosen: finer meshes seldom gain so much
_ESTIMATING = 0.5  # chosen: of the time, the share for estimates
_ENOUGH = 16  # chosen: degrees of mixed clusters that are drafted, of hundreds
_NEAR = 1.1  # chosen: drafts on finer meshes seldom gain so much
_AS_GOOD = 1.03  # measured: gpt3-175b on 1,024 A100, estimates up to 3.6 % off
_TOLERANCE = 3e-3  # chosen: of stages' plans in the end
_SHARPENED = 4  # chosen: degrees with more drafts than one; two seconds for each kind of device
_BEST_OF_RANKS = 1.5  # chosen: finer meshes gain as much where a rank has many devices


def plan_pipeline(
    request: Request,
    report: Report | None = None,
    stop: Stop = never,
    executor: Executor | None = None,
    keep: Keep = unwanted,
) -> Answer:
    """The best plan found, or why there is none; raises MeshwrightError for bad input.

    executor: for the searches that do not depend on each other; the answer is the same with any.
    keep: the best plan so far.
    """
    check_pipeline(request)
    return _PipelineSearch(request, report or (lambda _: None), stop, executor, keep).answer()


def check_pipeline(request: Request) -> None:
    """Raise what `plan_pipeline` would raise for bad input, but for pins that no rank can keep."""
    if request.setup.phase != "training":
        raise InvalidInput("pipelines are planned for training only", pointer="/pipeline")
    if request.topology.beside and request.constraints.offload != "none":
        raise InvalidInput(
            "what hosts keep is not planned for pipelines over several kinds of devices; leave the "
            "offload out, or name one of the groups as the topology",
            pointer="/constraints/offload",
        )
    check_on_groups(request, check)
    next(configurations(request, Anatomy(request.graph)), None)


class _PipelineSearch:
    def __init__(
        self, request: Request, say: Report, stop: Stop, executor: Executor | None, keep: Keep
    ) -> None:
        self.best = Best(keep)
        self.request = request
        self.say = say
        self.executor = executor
        self.deadline = Deadline.after(request.budget.seconds, stop)
        self.calibration: Calibration = calibration_for(request)
        self.anatomy = Anatomy(request.graph)
        self.searches = Searches(Shared(request, self.anatomy), executor)
        self.drafts = Drafts(self.searches, self._say)
        self.notes: list[str] = []
        self._known_staged: dict[tuple[Configuration, tuple[int, ...]], Staged] = {}

    def answer(self) -> Answer:
        impossible = states_alone(self.request)
        if impossible is not None:
            return Answer(infeasible=impossible)
        alone = None
        if self._may_be_alone:
            self._say("no pipeline", 0, 1)
            alone = Alone(self.searches, self._coarsest, self.deadline)
        options = sorted(self._options(), key=lambda own: own.estimated_ns)
        if alone is not None:
            alone.expect(options[0].ns if options else np.inf)
        promising = self._planned(options)
        single = None
        if alone is not None:
            single = alone.best(promising[0].ns if promising else np.inf)
            if single is not None:
                self.best.add(single)
            if promising:
                self.best(partial(self._so_far, promising[0]))
            else:
                self.best.offer()
        if not promising:
            if single is not None:
                return single
            return Answer(
                infeasible=closest(options) or self.drafts.refused or nothing_fits(self.request)
            )
        best = promising[0]
        if single is None or self._may_win(best, single):
            self._refine(best)
        assert best.plans is not None
        if single is not None and single.plan is not None:
            if single.plan.cost.step_ns <= best.plans.ns:
                return self._with_considered(single, options)
            ms = single.plan.cost.step_ns / 1e6
            self.notes.append(f"without a pipeline a step takes {ms:.1f} ms")
        self.notes += _idle(self.request.topology, best.configuration)
        others = [own for own in options if own is not best]
        considered = all_considered(others, best.ns, best.memory_bytes)
        plan = document(self.request, self._staged(best), best.plans, considered, self.notes)
        return Answer(plan=self._with_bound(plan))

    def _with_considered(self, single: Answer, options: list[Option]) -> Answer:
        assert single.plan is not None
        cost = single.plan.cost
        others = all_considered(options, cost.step_ns, cost.memory_bytes.total)
        search = single.plan.search.model_copy(update={"considered": others})
        plan = self._with_bound(single.plan.model_copy(update={"search": search}))
        return single.model_copy(update={"plan": plan})

    def _with_bound(self, plan: Plan) -> Plan:
        """The plan, with what is proved of all configurations."""
        request, anatomy = self.request, self.anatomy
        wanted = configurations(request, anatomy)
        alone = microbatch_counts(request) if self._may_be_alone else []
        bound_ns = least_step_ns(request, anatomy, self.calibration, wanted, alone)
        search = plan.search.model_copy(update={"step_bound_ns": bound_ns})
        return plan.model_copy(update={"search": search})

    @property
    def _may_be_alone(self) -> bool:
        return self.request.pipeline.ranks is None and not self.request.pipeline.cuts

    @property
    def _coarsest(self) -> int:
        """The axes of the coarsest mesh of all devices, or of all of one kind."""
        groups = self.request.topology.groups
        return max(coarsest_axes(self.request, group) for group in groups)

    def _options(self) -> list[Option]:
        """Every configuration that can be estimated, the promising ones better than the rest."""
        groups = self.drafts.groups(configurations(self.request, self.anatomy))
        left = self.deadline.left_s()
        seconds = None if left is None else left * _ESTIMATING
        estimating = Deadline.after(seconds, self.deadline.stop)
        if self.request.topology.beside:
            enough = float(_ENOUGH)
            in_order = scouted(self.request, self.drafts, groups, estimating)
        else:
            enough = np.inf
            in_order = self.drafts.look(groups, estimating)
        done = self.drafts.begin(in_order, estimating, enough)
        self._say_left_out(groups, done, estimating)
        kinds = len(self.request.topology.groups)
        promising = _promising(done, max(1, _SHARPENED // kinds))
        self.drafts.sharpen(promising, estimating)
        found = [own for group in groups for own in group.options]
        return found or self.drafts.tight_options(groups, _TIGHT)

    def _say_left_out(self, groups: Sequence[Group], done: Sequence[Group], time: Deadline) -> None:
        count = sum(len(own.configurations) for own in groups)
        count -= sum(len(own.configurations) for own in done)
        if count and time.is_over():
            self.notes.append(f"{count} configurations were not estimated")
        elif count:
            self.notes.append(
                f"{count} configurations were not estimated: with memory enough they seem to take "
                "longer than others do with what there is"
            )

    def _planned(self, options: list[Option]) -> list[Option]:
        """The most promising that have a plan on coarse meshes, the best first."""
        planned: list[Option] = []
        for tried, option in enumerate(_of_all_ranks(options)):
            best = min((own.plans.ns for own in planned if own.plans), default=np.inf)
            if tried >= _PLANNED and planned:
                break
            if planned and self.deadline.is_over():
                break
            if option.estimated_ns > _AS_GOOD * best:
                continue
            self._say(str(option.configuration), tried, _PLANNED)
            self._plan(option, option.axes, _COARSE_TOLERANCE)
            self._plan_without_recompute(option, best)
            if option.plans is not None:
                planned.append(option)
                planned.sort(key=lambda own: own.ns)
                self.best(partial(self._so_far, planned[0]))
            elif self.deadline.is_over():
                break
        return planned

    def _so_far(self, option: Option) -> Answer:
        """An option whose stages are planned, as an answer before the search has ended."""
        assert option.plans is not None
        notes = (NOT_ENDED, *self.notes)
        plan = document(self.request, self._staged(option), option.plans, (), notes)
        return Answer(plan=self._with_bound(plan))

    def _plan_without_recompute(self, option: Option, best_ns: float) -> None:
        """Plan an option once more, with stages that do nothing again, and keep what is faster:
        what is saved leaves more to choose than drafts know of."""
        first, *more = self.drafts.policies
        if option.policies == (first,):
            return
        plainer = self.drafts.estimator.without(option, more)
        if plainer is None or plainer.estimated_ns > _AS_GOOD * min(best_ns, option.ns):
            return
        self._plan(plainer, plainer.axes, _COARSE_TOLERANCE)
        if plainer.plans is not None and (option.plans is None or plainer.ns < option.ns):
            option.cut, option.estimate = plainer.cut, plainer.estimate
            option.plans, option.refused = plainer.plans, None

    def _may_win(self, option: Option, single: Answer) -> bool:
        """Whether more exact plans of its stages may be faster than the plan without a pipeline."""
        if single.plan is None:
            return True
        is_finest = option.axes == self.request.budget.max_axes
        gain = 1 + _COARSE_TOLERANCE if is_finest else _FAR_AHEAD
        return option.ns <= gain * single.plan.cost.step_ns

    def _refine(self, option: Option) -> None:
        axes = self.request.budget.max_axes
        if self.deadline.is_over():
            return
        if option.configuration.shares in self.drafts.coarse_only:
            axes = option.axes
            self.notes.append(f"meshes of more than {axes} axes were left out: large tables")
        coarse_plans = option.plans
        self._say(f"{option.configuration}, finest meshes", 0, 1)
        self._plan(option, axes, _TOLERANCE)
        if option.plans is None or (
            coarse_plans
            and coarse_plans.ns * (1 + self.request.budget.simplicity) <= option.plans.ns
        ):
            option.plans, option.refused = coarse_plans, None
            axes = option.axes
        self._lighten(option, axes)

    def _lighten(self, option: Option, axes: int) -> None:
        """Let stages do less again where drafts saw no room and there is some."""
        if option.plans is None or self.request.recompute.policy != "auto":
            return
        self.best(partial(self._so_far, option))
        self._say(f"{option.configuration}, less done again", 0, 1)
        staged = self._staged(option)
        option.plans = Lightening(
            on_meshes(self.request, axes, is_final=True),
            staged,
            self._wishes(option, staged, axes, is_final=True),
            _TOLERANCE,
            self.deadline,
            self.executor,
        ).of(option.plans)

    def _plan(self, option: Option, axes: int, tolerance: float) -> None:
        is_final, staged = tolerance == _TOLERANCE, self._staged(option)
        found = plan_stages_that_fit(
            on_meshes(self.request, axes, is_final=is_final),
            option.configuration,
            staged,
            self._wishes(option, staged, axes, is_final=is_final),
            self.deadline,
            tolerance,
            self.executor,
        )
        if isinstance(found, Infeasible):
            option.plans, option.refused = None, found
        else:
            option.plans, option.refused = found, None

    def _wishes(self, option: Option, staged: Staged, axes: int, *, is_final: bool) -> StageWishes:
        wishes = option.wishes(staged.alike(self.request))
        if axes != option.axes:
            return replace(wishes, meshes=())
        if is_final:
            return replace(wishes, meshes=option.estimate.every_mesh(option.cuts))
        return wishes

    def _staged(self, option: Option) -> Staged:
        own = option.configuration
        terms = own, option.cuts
        if terms not in self._known_staged:
            order = schedule(own.schedule, own.ranks, own.microbatches, own.stages_per_rank)
            self._known_staged[terms] = Staged(
                self.anatomy,
                self.request.topology,
                self.request.setup,
                self.calibration,
                order,
                option.cuts,
                own.placement,
            )
        return self._known_staged[terms]

    def _say(self, phase: str, done: int, total: int) -> None:
        self.say(Progress(phase=phase, done=done, total=max(total, 1)))


def _promising(groups: Sequence[Group], most: int) -> list[Group]:
    """The best of every number of ranks, and what else is near the best; any where nothing fits."""
    found = sorted((own for own in groups if own.options), key=lambda own: own.ns)
    if not found:
        return list(groups)[:most]
    seen: set[int] = set()
    firsts, others = [], []
    for own in found:
        if own.ranks not in seen and own.ns <= _BEST_OF_RANKS * found[0].ns:
            firsts.append(own)
        elif own.ns <= _NEAR * found[0].ns:
            others.append(own)
        seen.add(own.ranks)
    return [*firsts, *others][:most]


def _of_all_ranks(options: Sequence[Option]) -> list[Option]:
    """The first of every number of ranks before all others: what estimates err by, they err by for
    all of one number of ranks."""
    firsts: dict[int, Option] = {}
    for own in options:
        firsts.setdefault(own.configuration.ranks, own)
    first = list(firsts.values())
    return [*first, *(own for own in options if not any(own is other for other in first))]


def _idle(topology: Topology, own: Configuration) -> Iterator[str]:
    """That a configuration leaves groups of devices idle."""
    used = {share.group for share in own.shares}
    for number, group in enumerate(topology.groups):
        if number not in used:
            yield f"{group.device_count} {group.device.name} are idle: nothing found gains by them"
