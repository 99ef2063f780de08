"""The planner: from a request to a plan."""

from __future__ import annotations

from concurrent.futures import Executor
from functools import partial

from meshwright.schema import Answer, Request
from meshwright_costmodel.calibrations import calibration_for
from meshwright_solver.common.deadline import Stop, never
from meshwright_solver.evaluation.sequence_order import whole_problem, with_order
from meshwright_solver.pipeline.no_pipeline import check_on_groups, plan_on_one_group
from meshwright_solver.pipeline.pipeline_planner import check_pipeline, plan_pipeline
from meshwright_solver.planning.batch_independence import check_split
from meshwright_solver.planning.build import planner_build
from meshwright_solver.planning.degrees.degrees_planner import check_stated, plan_stated
from meshwright_solver.planning.host_memory import within_host
from meshwright_solver.planning.interleaving import (
    answering,
    check_turns,
    in_turns_or_not,
    without_turns,
)
from meshwright_solver.planning.replanning import replanned, without_before
from meshwright_solver.problem.expert_dims import check_experts
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.sequence_classes import rows_of
from meshwright_solver.stage.best_so_far import Best, Keep, through, unwanted
from meshwright_solver.stage.request_check import check as check_stage
from meshwright_solver.stage.search_progress import Report
from meshwright_solver.stage.stage_planner import plan_stage
from meshwright_solver.strategies.sparse_tables import with_sparse_tables

__all__ = ["check", "plan"]


def check(request: Request) -> None:
    """Raise what `plan` would raise for bad input, without searching."""
    request = without_before(request)
    request = without_turns(request)
    _check_whole(request)
    request = with_sparse_tables(request)
    if request.degrees is not None:
        check_stated(request)
    elif request.pipeline.ranks == 1:
        check_on_groups(request, check_stage)
    else:
        check_pipeline(request)


def plan(
    request: Request,
    report: Report | None = None,
    stop: Stop = never,
    executor: Executor | None = None,
    keep: Keep = unwanted,
) -> Answer:
    """The best plan for a request, or why there is none; raises MeshwrightError for bad input.

    stop: asked now and then; once it says so, the best plan so far is the answer.
    executor: for the searches within a search for pipelines that do not depend on each other; the
    answer is the same with any, and with none they run here one after the other.
    keep: told of what makes the best answer so far; not where `before` says what runs now, stated
    degrees leave little to search, or one of several kinds of devices is to have it all.
    """
    if request.before is not None:
        return replanned(request, lambda own: plan(own, report, stop, executor))
    if request.setup.copies != "auto":
        return _planned(request, report, stop, executor, keep)
    best = Best(keep)

    def planned(own: Request) -> Answer:
        as_asked = partial(answering, request, copies=own.setup.least_copies)
        answer = _planned(own, report, stop, executor, through(best, as_asked))
        best.add(as_asked(answer))
        best.offer()
        return answer

    return in_turns_or_not(request, planned)


def _planned(
    request: Request, report: Report | None, stop: Stop, executor: Executor | None, keep: Keep
) -> Answer:
    _check_whole(request)
    whole = partial(_as_wished, request)
    return whole(_answer(with_sparse_tables(request), report, stop, executor, through(keep, whole)))


def _as_wished(request: Request, answer: Answer) -> Answer:
    """The answer to the request itself."""
    if answer.plan is None:
        return answer
    # searches ask one another for more and less than was wished
    found = {"wishes": request.wishes, "planner_build": planner_build()}
    plan = answer.plan.model_copy(update=found)
    whole = _ordered(request, plan.microbatches)
    if whole is not None:
        plan = with_order(plan, whole)
    return answer.model_copy(update={"plan": plan})


def _ordered(request: Request, microbatches: int) -> Problem | None:
    """The request's whole graph, where it is to be loaded in another order than its own."""
    if request.setup.sequence_order == "contiguous":
        return None
    return _whole(request, microbatches)


def _whole(request: Request, microbatches: int) -> Problem:
    calibration = calibration_for(request)
    return whole_problem(request.graph, request.topology, request.setup, calibration, microbatches)


def _check_whole(request: Request) -> None:
    """Raise SetupError where what the setup says of sequences, experts or halves of a batch
    cannot be."""
    setup, count = request.setup, request.setup.microbatches or request.setup.least_copies
    if setup.sequence_order != "contiguous":
        rows_of(_whole(request, count))
    if setup.expert_imbalance > 1:
        whole = _whole(request, count)
        check_experts(whole.ops, whole.tensors, setup.expert_imbalance)
    if setup.least_copies > 1:
        check_turns(request)
        check_split(_whole(request, count))


def _answer(
    request: Request, report: Report | None, stop: Stop, executor: Executor | None, keep: Keep
) -> Answer:
    if request.degrees is not None:
        return plan_stated(request, report, stop)
    fitting = through(keep, lambda own: within_host(own, request))
    if request.pipeline.ranks != 1:
        return within_host(plan_pipeline(request, report, stop, executor, fitting), request)
    if request.topology.beside:
        fitting = unwanted  # a group's plan is not yet one for the whole topology
    return plan_on_one_group(
        request, lambda own: within_host(plan_stage(own, report, stop, keep=fitting), own)
    )
