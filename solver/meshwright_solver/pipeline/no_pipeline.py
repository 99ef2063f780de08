"""Plans of one stage: the baseline for pipelines.

A stage has one kind of device. On a mixed cluster each group is planned alone; the fastest plan is
the answer, with a note on the idle devices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from meshwright.schema import Answer, InvalidInput, Pipeline, Request, RequestPatch, Topology
from meshwright_solver.common.deadline import ENDLESS, Deadline
from meshwright_solver.pipeline.draft import on_meshes, within
from meshwright_solver.pipeline.shared_context import Searches, SharedContext
from meshwright_solver.stage.best_so_far import Best, Keep, through, unwanted
from meshwright_solver.stage.recompute.candidates import PolicyTrials
from meshwright_solver.stage.request_patches import of_wider_request
from meshwright_solver.stage.stage_planner import search_stage
from meshwright_solver.stage.stage_search import FAR_BEHIND
from meshwright_solver.stage.trial_order import ALL, TrialOrder

Planned = Callable[[Request], Answer]
Trials = tuple[PolicyTrials | None, ...]  # by group of devices

# chosen: shares of the remaining time for searches without a pipeline. That on the finest meshes is
# the last one, and mostly runs beside others
_COARSE_SHARE = 0.4
_FINE_SHARE = 0.75
_FAR_AHEAD = 1.1  # chosen: finer meshes seldom gain so much

_UNSURE = 1.05  # measured: estimates of pipelines near the memory limit are up to 4 % too low


class SingleStagePlan:
    """The search for the plan without a pipeline.

    A first plan on the coarsest meshes, of `axes` axes, bounds all others. If pipelines seem far
    ahead of it, all further searches wait for `best`; otherwise `expect` goes on with other
    recompute policies and numbers of microbatches, and starts the search on the finest meshes if it
    may win, in another process if there is an executor. Each answer is offered to `best`.
    """

    def __init__(self, searches: Searches, axes: int, deadline: Deadline, best: Best) -> None:
        self._searches = searches
        self._deadline = deadline
        self._axes = axes
        self._finest_axes = searches.shared.request.budget.max_axes
        self._best = best
        self._trials: Trials = ()
        self._search_coarsest(TrialOrder(first_only=True))
        self._is_begun = True
        self._on_finest: Callable[[], _SingleStageAnswer] | None = None

    @property
    def ns(self) -> float:
        """The step of the plan on the coarsest meshes; infinite without one."""
        plan = self._coarse.plan
        return np.inf if plan is None else plan.cost.step_ns

    def expect(self, pipeline_ns: float) -> None:
        """Search on, unless pipelines are far ahead; on the finest meshes if the plan may win.

        pipeline_ns: the optimistic step of the best pipeline.
        """
        if self.ns > FAR_BEHIND * pipeline_ns:
            return
        self._complete(np.inf)
        if self._coarse.plan is not None and not self._is_beaten(_UNSURE * pipeline_ns):
            self._on_finest = self._start_finest()

    def best(self, pipeline_ns: float) -> Answer:
        """The best answer; on the finest meshes too, unless pipelines are far ahead."""
        self._complete(pipeline_ns)
        coarse = self._coarse
        if self._on_finest is None:
            if self._is_beaten(pipeline_ns):
                return coarse
            self._on_finest = self._start_finest()
        fine = self._fine
        if coarse.plan is None:
            return fine
        if fine.plan is None or coarse.plan.cost.step_ns < fine.plan.cost.step_ns:
            return coarse
        return fine

    def without_limit(self, late: SharedContext) -> Answer:
        """The answer on the coarsest meshes. late: of the request without a time limit."""
        return self._offered(_plan_single_stage(late, SingleStageTask(self._axes), ENDLESS).answer)

    def _complete(self, beaten_ns: float) -> None:
        """Try the policies and microbatches that may be faster than `beaten_ns`; only once."""
        if self._is_begun and not self._deadline.is_over():
            self._is_begun = False
            self._search_coarsest(TrialOrder(beaten_ns=beaten_ns))

    def _search_coarsest(self, order: TrialOrder) -> None:
        task = SingleStageTask(self._axes, order, begun=self._trials)
        keep = through(self._best, self._as_asked)
        found = _plan_single_stage(self._searches.shared, task, self._deadline, keep)
        self._coarse, self._trials = self._offered(found.answer), found.trials

    @cached_property
    def _fine(self) -> Answer:
        assert self._on_finest is not None
        return self._offered(self._on_finest().answer)

    def _as_asked(self, answer: Answer) -> Answer:
        patch = no_pipeline_patch(self._searches.shared.request.pipeline)
        return of_wider_request(answer, patch)

    def _offered(self, answer: Answer) -> Answer:
        answer = self._as_asked(answer)
        self._best.add(answer)
        self._best.offer()
        return answer

    def _is_beaten(self, pipeline_ns: float) -> bool:
        if self._finest_axes <= self._axes:
            return True
        plan = self._coarse.plan
        if plan is None:
            return False
        return self._deadline.is_over() or plan.cost.step_ns > _FAR_AHEAD * pipeline_ns

    def _start_finest(self) -> Callable[[], _SingleStageAnswer]:
        return self._start(SingleStageTask(self._finest_axes, coarse=self._trials))

    def _start(self, task: SingleStageTask) -> Callable[[], _SingleStageAnswer]:
        """Start a search and return a function that waits for its answer.

        If the time ends before the other process answers, the search runs here with no time left.
        """
        waiting = self._searches.begun(_plan_single_stage, task, self._deadline)
        return lambda: waiting() or _plan_single_stage(self._searches.shared, task, self._deadline)


@dataclass(frozen=True, slots=True)
class SingleStageTask:
    """The search of one stage on meshes of so many axes.

    coarse, begun: the trials of the order, by group of devices.
    """

    axes: int
    order: TrialOrder = ALL
    coarse: Trials = ()
    begun: Trials = ()

    def order_of(self, group: int) -> TrialOrder:
        coarse = self.coarse[group] if self.coarse else None
        return replace(self.order, coarse=coarse, begun=self.begun[group] if self.begun else None)


@dataclass(frozen=True, slots=True)
class _SingleStageAnswer:
    answer: Answer
    trials: Trials


def _plan_single_stage(
    shared: SharedContext, task: SingleStageTask, deadline: Deadline, keep: Keep = unwanted
) -> _SingleStageAnswer:
    """keep: receives the best plans so far, on devices of one kind."""
    request, trials = shared.request, list[PolicyTrials | None]()
    final = task.axes == request.budget.max_axes
    on_meshes_of = on_meshes(request, task.axes, is_final=final)
    share = _FINE_SHARE if task.coarse else _COARSE_SHARE
    limited = within(on_meshes_of, deadline, share / len(request.topology.groups))

    def planned(one: Request) -> Answer:
        ways = shared.anatomy.foldings
        answer, tried = search_stage(
            one,
            stop=deadline.stop,
            foldings=ways,
            keep=unwanted if request.topology.beside else keep,
            order=task.order_of(len(trials)),
        )
        trials.append(tried)
        return answer

    return _SingleStageAnswer(plan_on_one_group(limited, planned), tuple(trials))


def no_pipeline_patch(wanted: Pipeline) -> RequestPatch:
    """The request patch from pipelines to a single stage, which has no schedule."""
    pipeline: dict[str, int | str | None] = {"ranks": 1}
    for name in ("schedule", "stages_per_rank"):
        if getattr(wanted, name) is not None:
            pipeline[name] = None
    return {"pipeline": pipeline}


def plan_on_one_group(request: Request, planned: Planned) -> Answer:
    """The fastest plan of one stage on one group, or the reason of the least shortfall.

    planned: the search for one stage on devices of one kind.
    """
    if not request.topology.beside:
        return planned(request)
    answers: list[Answer] = []
    first = 0
    for group in request.topology.groups:
        alone = request.model_copy(update={"topology": group})
        answers.append(_on_whole_topology(planned(alone), request, group, first))
        first += group.device_count
    return min(answers, key=_worth)


def check_on_groups(request: Request, check: Callable[[Request], None]) -> None:
    """Run `check` on each group; raise its first error if it refuses every group."""
    refused: list[InvalidInput] = []
    for group in request.topology.groups:
        try:
            check(request.model_copy(update={"topology": group}))
        except InvalidInput as wrong:
            refused.append(wrong)
        else:
            return
    raise refused[0]


def _worth(answer: Answer) -> tuple[bool, float]:
    if answer.plan is not None:
        return False, answer.plan.cost.step_ns
    why = answer.infeasible
    if why is None or not why.needed_bytes or not why.available_bytes:
        return True, np.inf
    return True, why.needed_bytes / why.available_bytes


def _on_whole_topology(answer: Answer, request: Request, group: Topology, first: int) -> Answer:
    """The answer for the whole topology; the group has its devices from `first` on."""
    if answer.plan is None:
        if answer.infeasible is None:
            return answer
        detail = f"on {group.device_count} {group.device.name} alone: {answer.infeasible.detail}"
        why = answer.infeasible.model_copy(update={"detail": detail})
        return answer.model_copy(update={"infeasible": why})
    (stage,) = answer.plan.stages
    idle = request.topology.device_count - group.device_count
    note = (
        f"one stage has one kind of device: the plan is for the {group.device_count} "
        f"{group.device.name}, and {idle} other devices are idle; a pipeline can have all"
    )
    plan = answer.plan.model_copy(
        update={
            "topology": request.topology.id,
            "stages": (stage.model_copy(update={"ranks_from": first}),),
            "notes": (note, *answer.plan.notes),
        }
    )
    return answer.model_copy(update={"plan": plan})
