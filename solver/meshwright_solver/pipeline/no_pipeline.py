"""Plans of one stage: the baseline for pipelines.

A stage has one kind of device. On a mixed cluster each group is planned alone; the fastest plan is
the answer, with a note on the idle devices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meshwright.schema import Answer, InvalidInput, Pipeline, Request, RequestPatch, Topology
from meshwright_solver.common.deadline import ENDLESS, Deadline
from meshwright_solver.pipeline.draft import on_meshes, within
from meshwright_solver.pipeline.shared_context import Searches, SharedContext
from meshwright_solver.stage.best_so_far import Best
from meshwright_solver.stage.recompute.candidates import PolicyTrials
from meshwright_solver.stage.request_patches import of_wider_request
from meshwright_solver.stage.stage_planner import search_stage

Planned = Callable[[Request], Answer]
Trials = tuple[PolicyTrials | None, ...]  # by group of devices

_SHARE = 0.4  # chosen: share of the remaining time for each search without a pipeline
_FAR_AHEAD = 1.1  # chosen: finer meshes seldom gain so much
_UNSURE = 1.05  # measured: estimates of pipelines near the memory limit are up to 4 % too low


class SingleStagePlan:
    """The search for the plan without a pipeline, in another process if there is an executor.

    The search on the coarsest meshes, of `axes` axes, starts at once. `expect` starts the search on
    the finest meshes if it may win, and `best` at the latest. Each answer is offered to `best`.
    """

    def __init__(self, searches: Searches, axes: int, deadline: Deadline, best: Best) -> None:
        self._searches = searches
        self._deadline = deadline
        self._axes = axes
        self._finest_axes = searches.shared.request.budget.max_axes
        self._best = best
        self._on_coarsest = self._start(SingleStageTask(axes))
        if searches.executor is None:
            self._coarse  # noqa: B018  it has ended: offer its plan
        self._on_finest: Callable[[], _SingleStageAnswer] | None = None

    @property
    def ns(self) -> float:
        """The step of the plan on the coarsest meshes; infinite without one. It waits for it."""
        plan = self._coarse.plan
        return np.inf if plan is None else plan.cost.step_ns

    def expect(self, pipeline_ns: float) -> None:
        """Start the search on the finest meshes if there is a plan on coarser ones that may win.

        pipeline_ns: the optimistic step of the best pipeline.
        """
        if self._coarse.plan is not None and not self._is_beaten(_UNSURE * pipeline_ns):
            self._on_finest = self._start_finest()

    def best(self, pipeline_ns: float) -> Answer:
        """The best answer; on the finest meshes too, unless pipelines are far ahead."""
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

    @property
    def _coarse(self) -> Answer:
        return self._coarse_answer.answer

    @cached_property
    def _coarse_answer(self) -> _SingleStageAnswer:
        found = self._on_coarsest()
        return _SingleStageAnswer(self._offered(found.answer), found.trials)

    @cached_property
    def _fine(self) -> Answer:
        assert self._on_finest is not None
        return self._offered(self._on_finest().answer)

    def _offered(self, answer: Answer) -> Answer:
        patch = no_pipeline_patch(self._searches.shared.request.pipeline)
        answer = of_wider_request(answer, patch)
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
        return self._start(SingleStageTask(self._finest_axes, self._coarse_answer.trials))

    def _start(self, task: SingleStageTask) -> Callable[[], _SingleStageAnswer]:
        """Start a search and return a function that waits for its answer.

        If the time ends before the other process answers, the search runs here with no time left.
        """
        waiting = self._searches.begun(_plan_single_stage, task, self._deadline)
        return lambda: waiting() or _plan_single_stage(self._searches.shared, task, self._deadline)


@dataclass(frozen=True, slots=True)
class SingleStageTask:
    """The search of one stage on meshes of so many axes. coarse: its trials on coarser meshes."""

    axes: int
    coarse: Trials = ()


@dataclass(frozen=True, slots=True)
class _SingleStageAnswer:
    answer: Answer
    trials: Trials


def _plan_single_stage(
    shared: SharedContext, task: SingleStageTask, deadline: Deadline
) -> _SingleStageAnswer:
    request, trials = shared.request, list[PolicyTrials | None]()
    final = task.axes == request.budget.max_axes
    on_meshes_of = on_meshes(request, task.axes, is_final=final)
    limited = within(on_meshes_of, deadline, _SHARE / len(request.topology.groups))

    def planned(one: Request) -> Answer:
        coarse = task.coarse[len(trials)] if task.coarse else None
        ways = shared.anatomy.foldings
        answer, tried = search_stage(one, stop=deadline.stop, foldings=ways, coarse=coarse)
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
