"""The planner: from a request to a plan."""

from __future__ import annotations

from concurrent.futures import Executor
from functools import partial

from meshwright.schema import Answer, Request
from meshwright_costmodel.calibrations import calibration_for
from meshwright_solver.common.deadline import Stop, never
from meshwright_solver.evaluation.sequence_order import whole_problem, with_order
from meshwright_solver.pipeline.anatomy_cache import anatomy_of, with_known_graph
from meshwright_solver.pipeline.graph_work import GraphWork
from meshwright_solver.pipeline.no_pipeline import check_on_groups, plan_on_one_group
from meshwright_solver.pipeline.pipeline_planner import check_pipeline, plan_pipeline
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.pipeline.step_bound import request_bound_ns
from meshwright_solver.planning.batch_independence import check_split
from meshwright_solver.planning.build import planner_build
from meshwright_solver.planning.considered_order import with_considered_order
from meshwright_solver.planning.degrees.degrees_planner import check_stated, plan_stated
from meshwright_solver.planning.host_memory import check_host, within_host
from meshwright_solver.planning.interleaving import (
    answering,
    check_turns,
    in_turns_or_not,
    without_turns,
)
from meshwright_solver.planning.open_ranks import with_ranks
from meshwright_solver.planning.replanning import replanned, without_before
from meshwright_solver.planning.stage_layers import with_stage_layers
from meshwright_solver.planning.target.target_planner import check_target, plan_target
from meshwright_solver.problem.expert_dims import check_experts
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.sequence_classes import rows_of
from meshwright_solver.stage.best_so_far import Best, Keep, through, unwanted
from meshwright_solver.stage.recompute.stated_ops import check_globs
from meshwright_solver.stage.request_check import check as check_stage
from meshwright_solver.stage.search_progress import Report
from meshwright_solver.stage.stage_planner import plan_stage
from meshwright_solver.strategies.sparse_tables import with_sparse_tables
from meshwright_solver.strategies.unsharded_parameters import check_unsharded

__all__ = ["check", "plan"]


def check(request: Request) -> None:
    """Raise the errors of `plan` for bad input, without a search."""
    request = without_before(request)
    request = with_stage_layers(with_ranks(without_turns(request)))
    _check_whole(request)
    request = with_sparse_tables(request)
    if request.degrees is not None:
        check_stated(request)
    elif request.target is not None:
        check_target(request)
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
    """The best plan for a request, or the reason for none; raises MeshwrightError for bad input.

    stop: polled; once true, the best plan so far is the answer.
    executor: for the independent searches within a pipeline search. The answer is the same with
    any; with None they run sequentially in this process.
    keep: callback for the best answer so far. It is not called with `before`, with stated degrees,
    or for one group of a topology with several kinds of devices.
    """
    request = with_known_graph(request)
    if request.before is not None:
        return replanned(request, lambda alone: plan(alone, report, stop, executor))
    if request.setup.copies != "auto":
        return _plan_with_wishes(request, report, stop, executor, keep)
    if request.target is not None:  # no framework's options state that microbatches alternate
        alone = without_turns(request)
        return answering(request, _plan_with_wishes(alone, report, stop, executor, keep), 1)
    best = Best(keep)

    def planned(variant: Request) -> Answer:
        as_asked = partial(answering, request, copies=variant.setup.least_copies)
        answer = _plan_with_wishes(variant, report, stop, executor, through(best, as_asked))
        best.add(as_asked(answer))
        best.offer()
        return answer

    return in_turns_or_not(request, planned)


def _plan_with_wishes(
    request: Request, report: Report | None, stop: Stop, executor: Executor | None, keep: Keep
) -> Answer:
    resolved = with_stage_layers(with_ranks(request))
    _check_whole(resolved)
    whole = partial(_with_request, request)
    keep = through(keep, whole)
    return whole(_answer(with_sparse_tables(resolved), report, stop, executor, keep))


def _with_request(request: Request, answer: Answer) -> Answer:
    """The answer with the wishes, the build and the sequence order of the request itself."""
    if answer.plan is None:
        return answer
    # the request of an inner search differs from the user's
    update = {"wishes": request.wishes, "planner_build": planner_build()}
    plan = with_considered_order(answer.plan.model_copy(update=update))
    whole = _reordered_problem(request, plan.microbatches)
    if whole is not None:
        plan = with_order(plan, whole)
    return answer.model_copy(update={"plan": plan})


def _reordered_problem(request: Request, microbatches: int) -> Problem | None:
    """The problem of the whole graph if its sequences are reordered; else None."""
    if request.setup.sequence_order == "contiguous":
        return None
    return _whole_problem(request, microbatches)


def _whole_problem(request: Request, microbatches: int) -> Problem:
    calibration = calibration_for(request)
    return whole_problem(request.graph, request.topology, request.setup, calibration, microbatches)


def _check_whole(request: Request) -> None:
    """Raise SetupError if sequence order, expert imbalance or copies do not fit the graph, and
    RequestError for stated ops or parameters that it lacks, and offload without a host."""
    check_globs(request.graph, request.recompute.ops)
    check_unsharded(request)
    setup, count = request.setup, request.setup.microbatches or request.setup.least_copies
    if setup.sequence_order != "contiguous":
        rows_of(_whole_problem(request, count))
    if setup.expert_imbalance > 1:
        whole = _whole_problem(request, count)
        check_experts(whole.ops, whole.tensors, setup.expert_imbalance)
    if setup.least_copies > 1:
        check_turns(request)
        check_split(_whole_problem(request, count))
    check_host(request)


def _answer(
    request: Request, report: Report | None, stop: Stop, executor: Executor | None, keep: Keep
) -> Answer:
    if request.degrees is not None:
        return plan_stated(request, report, stop)
    if request.target is not None:
        free = partial(_unrestricted, report=report, stop=stop, executor=executor)
        return plan_target(request, report or (lambda _: None), stop, executor, keep, free)
    fitting = through(keep, lambda answer: within_host(answer, request))
    if request.pipeline.ranks != 1:
        return within_host(plan_pipeline(request, report, stop, executor, fitting), request)
    if request.topology.beside:
        fitting = unwanted  # a group's plan is not yet one for the whole topology
    anatomy = anatomy_of(request.graph, training=request.setup.phase == "training")
    ways = anatomy.foldings
    answer = plan_on_one_group(
        request,
        lambda part: within_host(plan_stage(part, report, stop, foldings=ways, keep=fitting), part),
    )
    return _with_step_bound(answer, request, anatomy)


def _unrestricted(
    request: Request, report: Report | None, stop: Stop, executor: Executor | None
) -> Answer:
    """The answer to a request of a target without it."""
    return _answer(with_ranks(request), report, stop, executor, unwanted)


def _with_step_bound(answer: Answer, request: Request, anatomy: Anatomy) -> Answer:
    """The answer with a lower bound on the step of every plan of one stage, in training."""
    if answer.plan is None or not anatomy.training:
        return answer
    bound_ns = request_bound_ns(request, GraphWork(request, anatomy, calibration_for(request)))
    search = answer.plan.search.model_copy(update={"step_bound_ns": bound_ns})
    return answer.model_copy(update={"plan": answer.plan.model_copy(update={"search": search})})
