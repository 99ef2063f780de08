"""The planner: from a request to a plan."""

from __future__ import annotations

from concurrent.futures import Executor

from costmodel.calibrations import calibration_for
from meshwright.schema import Answer, Request
from solver import stage_planner
from solver.deadline import Stop, never
from solver.expert_loads import check_experts
from solver.host_limit import within_host
from solver.pipeline.alone import check_on_groups, plan_on_one_group
from solver.pipeline.planner import check_pipeline, plan_pipeline
from solver.problem import Problem
from solver.replanning import replanned, without_before
from solver.sequence_order import whole_problem, with_order
from solver.sequence_rows import rows_of
from solver.sparse_tables import with_sparse_tables
from solver.split_batch import check_split
from solver.stage_planner import Report, plan_stage
from solver.stated.planner import check_stated, plan_stated
from solver.turns import check_turns, in_turns_or_not, without_turns

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
        check_on_groups(request, stage_planner.check)
    else:
        check_pipeline(request)


def plan(
    request: Request,
    report: Report | None = None,
    stop: Stop = never,
    executor: Executor | None = None,
) -> Answer:
    """The best plan for a request, or why there is none; raises MeshwrightError for bad input.

    stop: asked now and then; once it says so, the best plan so far is the answer.
    executor: for the searches within a search for pipelines that do not depend on each other; the
    answer is the same with any, and with none they run here one after the other.
    """
    if request.before is not None:
        return replanned(request, lambda own: plan(own, report, stop, executor))
    if request.setup.copies != "auto":
        return _planned(request, report, stop, executor)
    return in_turns_or_not(request, lambda own: _planned(own, report, stop, executor))


def _planned(
    request: Request, report: Report | None, stop: Stop, executor: Executor | None
) -> Answer:
    _check_whole(request)
    answer = _answer(with_sparse_tables(request), report, stop, executor)
    if answer.plan is None:
        return answer
    # searches ask one another for more and less than was wished
    plan = answer.plan.model_copy(update={"wishes": request.wishes})
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
    request: Request, report: Report | None, stop: Stop, executor: Executor | None
) -> Answer:
    if request.degrees is not None:
        return plan_stated(request, report, stop)
    if request.pipeline.ranks == 1:
        return plan_on_one_group(
            request, lambda own: within_host(plan_stage(own, report, stop), own)
        )
    return within_host(plan_pipeline(request, report, stop, executor), request)
