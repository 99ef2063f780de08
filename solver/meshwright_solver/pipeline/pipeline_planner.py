"""The pipeline search: configurations first, then every stage.

    1. For every number of pipeline ranks and of microbatches, the whole graph is planned on the
       devices of one rank, on its coarsest mesh, with unlimited memory. Sums over its ops give the
       optimistic step of configurations (`drafts.py`, `draft.py`, `optimistic_step.py`).
       The plan without a pipeline is searched too, on finer meshes if it may win, and bounds
       what is worth a draft (`no_pipeline.py`).
    2. In that order, while a configuration may win, the graph is planned along the price of memory,
       for every recompute policy (`draft_plan.py`). For every schedule, cuts balance the time and
       the memory of ops (`cuts.py`). A run of the schedule with the fastest draft plan that fits
       each stage is the estimate of a configuration (`estimate.py`, `cut_stages.py`,
       `schedule_run.py`, `candidates.py`).
    3. The most promising numbers are estimated again on finer meshes.
    4. The most promising configurations are planned stage by stage, equal stages once, and
       evaluated (`option_planner.py`, `pipeline_cost.py`). Their plans tell how far off estimates
       are, and configurations that then seem faster than the best plan are planned too.
    5. The best of them is planned again on the finest meshes. Stages with free memory recompute
       less (`reduce_recompute.py`). The result is the answer.

Drafts and stages are independent: any executor runs them (`parallel_map.py`).

The plan of every stage fits into the memory of its devices, with the microbatches in flight at its
position in the schedule. The lower bound of the answer is that of its compute alone, for its cuts
and its schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from meshwright.schema import (
    Answer,
    Considered,
    Infeasible,
    InvalidInput,
    Plan,
    Progress,
    Request,
    Topology,
)
from meshwright_solver.common.deadline import ENDLESS, Deadline, Stop, never
from meshwright_solver.pipeline.anatomy_cache import anatomy_of
from meshwright_solver.pipeline.candidates import Option, all_considered, left_out_considered
from meshwright_solver.pipeline.configurations import Configuration, configurations
from meshwright_solver.pipeline.draft import coarsest_axes
from meshwright_solver.pipeline.draft_group import DraftGroup
from meshwright_solver.pipeline.drafts import Drafts
from meshwright_solver.pipeline.infeasible_pipeline import closest, nothing_fits
from meshwright_solver.pipeline.mixed_cluster_prefilter import ranked_groups
from meshwright_solver.pipeline.no_pipeline import (
    SingleStagePlan,
    check_on_groups,
)
from meshwright_solver.pipeline.option_planner import AS_GOOD, COARSE_TOLERANCE, OptionPlanner
from meshwright_solver.pipeline.pipeline_document import document
from meshwright_solver.pipeline.promising import of_all_ranks, promising_groups
from meshwright_solver.pipeline.shared_context import Searches, SharedContext
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.pipeline.step_bound import request_bound_ns
from meshwright_solver.stage.answer import NOT_ENDED, time_notes
from meshwright_solver.stage.best_so_far import Best, Keep, unwanted
from meshwright_solver.stage.parameter_bound import parameter_shortfall
from meshwright_solver.stage.request_check import check
from meshwright_solver.stage.search_progress import Report
from meshwright_solver.stage.stage_search import FAR_BEHIND

# --- how many ---
_PLANNED = 3  # chosen: options that are planned stage by stage; about a second each
_MOST_PLANNED = 6  # chosen: the same, where corrected estimates are below the best plan
_TIGHT = 3  # chosen: the same if no estimate fits
_LATE = 8  # chosen: draft groups to find any plan after the end of the time
_DRAFTED_OF_MIXED = 16  # chosen: draft groups of a mixed cluster, which has hundreds
_SHARPENED = 4  # chosen: groups with several drafts; two seconds for each kind of device
# --- how near: shares of the best step that finer meshes may still gain ---
_FAR_AHEAD = 1.1  # chosen: stages on finer meshes seldom gain so much
_ESTIMATING = 0.6  # chosen: share of the time for estimates; the rest is for stage plans


def plan_pipeline(
    request: Request,
    report: Report | None = None,
    stop: Stop = never,
    executor: Executor | None = None,
    keep: Keep = unwanted,
) -> Answer:
    """The best pipeline plan, or the reason for none; raises MeshwrightError for bad input.

    executor: for independent searches; the answer is the same with any. keep: callback for the
    best plan so far.
    """
    check_pipeline(request)
    return _PipelineSearch(request, report or (lambda _: None), stop, executor, keep).answer()


def check_pipeline(request: Request) -> None:
    """Raise the errors of `plan_pipeline` for bad input, except for pins that no rank can keep."""
    if request.setup.phase != "training":
        raise InvalidInput("pipelines are planned for training only", pointer="/pipeline")
    if request.topology.beside and request.constraints.offload != "none":
        raise InvalidInput(
            "offload to hosts is not planned for pipelines over several kinds of devices. Omit the "
            "offload, or name one of the groups as the topology",
            pointer="/constraints/offload",
        )
    check_on_groups(request, check)
    next(configurations(request, Anatomy(request.graph)), None)


class _PipelineSearch:
    """The pipeline search of one request.

    options: the latest option of each configuration. _errors: by number of ranks, the least ratio
    of a planned step to its estimate.
    """

    def __init__(
        self, request: Request, say: Report, stop: Stop, executor: Executor | None, keep: Keep
    ) -> None:
        self.best = Best(keep)
        self.request = request
        self.say = say
        self.deadline = Deadline.after(request.budget.seconds, stop)
        self.anatomy = anatomy_of(request.graph)
        self.searches = Searches(SharedContext(request, self.anatomy), executor)
        self.drafts = Drafts(self.searches, self._say, self.deadline)
        self.stages = OptionPlanner(
            self.drafts, self.deadline, executor, say=self._say, report=self._report
        )
        self.options: dict[Configuration, Option] = {}
        self._has_first = self._is_cut_short = False
        self._errors: dict[int, float] = {}
        self._groups: list[DraftGroup] = []
        self.notes: list[str] = []

    def answer(self) -> Answer:
        impossible = parameter_shortfall(self.request)
        if impossible is not None:
            return Answer(infeasible=impossible)
        alone = None
        if self._may_be_alone:
            self._say("no pipeline", 0, 1)
            alone = SingleStagePlan(self.searches, self._coarsest, self.deadline, self.best)
        options = sorted(self._options(alone), key=lambda option: option.estimated_ns)
        self.options = {option.configuration: option for option in options}
        promising = self._best_planned(options, np.inf if alone is None else alone.ns)
        single = None if alone is None else self._single(alone, promising)
        if promising is None and (single is None or single.plan is None) and self._is_cut_short:
            late = SharedContext(self._unlimited, self.anatomy)
            if alone is not None:
                single = alone.without_limit(late)
            if single is None or single.plan is None:
                promising = self._planned_late(late)
        if promising is None:
            if single is not None:
                return self._with_considered(single)
            return Answer(infeasible=self._reason_for_none())
        best = promising
        if single is None or self._may_win(best, single):
            best, notes = self.stages.refined(best)
            self.options[best.configuration] = best
            self.notes += notes
        assert best.plans is not None
        if single is not None and single.plan is not None:
            if single.plan.cost.step_ns <= best.plans.ns:
                return self._with_considered(single)
            ms = single.plan.cost.step_ns / 1e6
            self.notes.append(f"without a pipeline a step takes {ms:.1f} ms")
        self.notes += _idle_notes(self.request.topology, best.configuration)
        self.notes += time_notes(self.request, self.deadline)
        others = [option for option in self._corrected_options() if option is not best]
        considered = self._considered(others, best.ns, best.memory_bytes)
        plan = document(self.request, self.stages.staged(best), best.plans, considered, self.notes)
        return Answer(plan=self._with_bound(plan))

    def _single(self, alone: SingleStagePlan, promising: Option | None) -> Answer:
        """The answer without a pipeline. promising: the best planned option."""
        single = alone.best(np.inf if promising is None else promising.ns)
        if promising is not None:
            self._report(promising)
        return single

    def _reason_for_none(self) -> Infeasible:
        options = list(self.options.values())
        return closest(options) or self.drafts.refused or nothing_fits(self.request)

    def _with_considered(self, single: Answer) -> Answer:
        if single.plan is None:
            return single
        cost = single.plan.cost
        options = self._corrected_options()
        others = self._considered(options, cost.step_ns, cost.memory_bytes.total)
        considered = others + single.plan.search.considered
        changes: dict[str, object] = {"considered": considered}
        if self._is_cut_short or self.deadline.is_over():
            changes["outcome"] = "feasible"  # a configuration that was not looked at may be better
        search = single.plan.search.model_copy(update=changes)
        notes = (*single.plan.notes, *self.notes, *time_notes(self.request, self.deadline))
        changed = single.plan.model_copy(update={"search": search, "notes": notes})
        plan = self._with_bound(changed)
        return single.model_copy(update={"plan": plan})

    def _considered(
        self, options: Sequence[Option], best_ns: float, memory_bytes: int
    ) -> tuple[Considered, ...]:
        """The options, and what was left out. best_ns, memory_bytes: of the answer's plan."""
        outlooks = (outlook for group in self._groups for outlook in group.without_estimate())
        considered = all_considered(options, best_ns, memory_bytes)
        return considered + left_out_considered(outlooks, best_ns)

    def _with_bound(self, plan: Plan) -> Plan:
        """The plan with the lower bound on the step of all configurations."""
        search = plan.search.model_copy(update={"step_bound_ns": self._bound_ns})
        return plan.model_copy(update={"search": search})

    @cached_property
    def _bound_ns(self) -> float | None:
        return request_bound_ns(self.request, self.searches.shared.work)

    @property
    def _may_be_alone(self) -> bool:
        return self.request.pipeline.ranks is None and not self.request.pipeline.cuts

    @property
    def _coarsest(self) -> int:
        """The axes of the coarsest mesh of all devices of one kind, the most of any kind."""
        groups = self.request.topology.groups
        return max(coarsest_axes(self.request, group) for group in groups)

    def _options(self, alone: SingleStagePlan | None) -> list[Option]:
        """The options of all estimated configurations; the promising ones on finer meshes too."""
        groups = self._groups = self.drafts.groups(configurations(self.request, self.anatomy))
        estimating = self._for_estimates()

        def beaten_ns() -> float:
            return np.inf if alone is None else alone.ns

        if self.request.topology.beside:
            enough = float(_DRAFTED_OF_MIXED)
            in_order = ranked_groups(self.request, self.drafts, groups, estimating)
        else:
            enough = np.inf
            in_order = self.drafts.look(groups, estimating, beaten_ns)
        at_best_ns = in_order[0].at_best_ns if in_order else np.inf
        if alone is not None:
            alone.expect(at_best_ns)
            estimating = self._for_estimates()
        self._has_first = beaten_ns() < np.inf and beaten_ns() <= FAR_BEHIND * at_best_ns
        done = self.drafts.begin(in_order, estimating, enough, beaten_ns(), self._plan_first)
        self._is_cut_short = estimating.is_over()
        self._say_left_out(groups, done, estimating)
        kinds = len(self.request.topology.groups)
        promising = promising_groups(done, beaten_ns(), max(1, _SHARPENED // kinds))
        self.drafts.sharpen(promising, estimating)
        options = [option for group in groups for option in group.options]
        if not options and beaten_ns() == np.inf:
            return self.drafts.tight_options(groups, _TIGHT)
        return options

    def _for_estimates(self) -> Deadline:
        """The end of the estimates, a share of the remaining time from now."""
        remaining_s = self.deadline.left_s()
        seconds = None if remaining_s is None else remaining_s * _ESTIMATING
        return Deadline.after(seconds, self.deadline.stop)

    def _say_left_out(
        self, groups: Sequence[DraftGroup], done: Sequence[DraftGroup], time: Deadline
    ) -> None:
        count = sum(len(group.configurations) + len(group.left_out) for group in groups)
        count -= sum(len(group.configurations) for group in done)
        if count and time.is_over():
            self.notes.append(f"{count} configurations were not estimated")
        elif count:
            self.notes.append(
                f"{count} configurations were not estimated: with memory enough they seem to take "
                "longer than others do with what there is"
            )

    def _best_planned(self, options: Sequence[Option], single_ns: float) -> Option | None:
        """The best of the most promising options, planned on coarse meshes; None without a plan.

        single_ns: the step of the plan without a pipeline, which options have to be close to.
        Estimates are corrected by the errors of the options planned before. Beyond the first few,
        an option is planned if its corrected estimate is below the best plan.
        """
        planned: list[Option] = []
        tried = 0
        for option in of_all_ranks(options):
            best_ns = min((other.ns for other in planned), default=single_ns)
            if planned and (tried >= _MOST_PLANNED or self.deadline.is_over()):
                break
            may_win = option.estimated_ns * self._error(option) < best_ns
            if option.estimated_ns > AS_GOOD * min(best_ns, single_ns) or (
                tried >= _PLANNED and not may_win
            ):
                continue
            self._say(str(option.configuration), tried, max(_PLANNED, tried + 1))
            tried += 1
            estimated_ns, ranks = option.estimated_ns, option.configuration.ranks
            option = self.options[option.configuration] = self.stages.coarse(option, best_ns)
            if option.plans is not None:
                error = option.ns / estimated_ns
                self._errors[ranks] = min(error, self._errors.get(ranks, error))
                planned.append(option)
                planned.sort(key=lambda other: other.ns)
                self._report(planned[0])
            elif self.deadline.is_over():
                break
        return planned[0] if planned else None

    def _error(self, option: Option) -> float:
        """The least ratio of a plan's step to its estimate, of plans with as many ranks; else 1."""
        return self._errors.get(option.configuration.ranks, 1.0)

    def _corrected_options(self) -> list[Option]:
        """All options, their estimates corrected by the errors of the planned ones."""
        options = self.options.values()
        return [replace(option, error=self._error(option)) for option in options]

    @property
    def _unlimited(self) -> Request:
        """The request without a time limit."""
        budget = self.request.budget.model_copy(update={"seconds": None})
        return self.request.model_copy(update={"budget": budget})

    def _planned_late(self, late: SharedContext) -> Option | None:
        """The first option with a plan, where the time ended before any search had one.

        A few draft groups of all numbers of ranks are tried. late: of the request without a limit.
        """
        executor = self.searches.executor
        drafts = Drafts(Searches(late, executor), self._say)
        stages = OptionPlanner(drafts, ENDLESS, executor, say=self._say, report=self._report)
        groups = drafts.groups(configurations(late.request, self.anatomy))
        few = drafts.look(groups[:: max(1, len(groups) // _LATE)], ENDLESS)
        for group in few:
            drafts.begin([group], ENDLESS)
            for option in sorted(group.options, key=lambda option: option.estimated_ns)[:1]:
                planned = self.options[option.configuration] = stages.coarse(option, np.inf)
                if planned.plans is not None:
                    return planned
        return None

    def _plan_first(self, groups: Sequence[DraftGroup]) -> None:
        """Plan and offer the best option of the first groups that have any, until one has a plan.

        Without it, a search in which one stage does not fit, or is slow, has nothing better before
        its last part.
        """
        options = [option for group in groups for option in group.options]
        if self._has_first or not options:
            return
        option = min(options, key=lambda option: option.estimated_ns)
        planned = self.stages.coarse(option, np.inf)
        if planned.plans is not None:
            self._has_first = True
            self._report(planned)

    def _report(self, option: Option) -> None:
        """Offer an option with stage plans as an answer before the search ends."""
        self.best(partial(self._current_answer, option))
        self.best.expect(option.ns)

    def _current_answer(self, option: Option) -> Answer:
        assert option.plans is not None
        notes = (NOT_ENDED, *self.notes)
        plan = document(self.request, self.stages.staged(option), option.plans, (), notes)
        return Answer(plan=self._with_bound(plan))

    def _may_win(self, option: Option, single: Answer) -> bool:
        """Whether finer plans of its stages may be faster than the plan without a pipeline."""
        if single.plan is None:
            return True
        is_finest = option.axes == self.request.budget.max_axes
        gain = 1 + COARSE_TOLERANCE if is_finest else _FAR_AHEAD
        return option.ns <= gain * single.plan.cost.step_ns

    def _say(self, phase: str, done: int, total: int) -> None:
        self.say(Progress(phase=phase, done=done, total=max(total, 1)))


def _idle_notes(topology: Topology, configuration: Configuration) -> Iterator[str]:
    """Notes on the groups of devices that a configuration leaves idle."""
    used = {share.group for share in configuration.shares}
    for number, group in enumerate(topology.groups):
        if number not in used:
            yield f"{group.device_count} {group.device.name} are idle: nothing found gains by them"
