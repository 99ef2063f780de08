"""Verification of a plan: execution on small sizes, compared with an unsharded run.

The verifier executes both passes on all devices. It gathers every value at rest, its gradient and
every parameter's gradient from the devices. Each must equal the unsharded run's within TOLERANCE of
the largest element of the tensor. The layouts, groups, steps and buckets are those of the plan
document; only the sizes are smaller (`meshwright_solver.verification.execution.scale_down`).

The verifier also checks what the plan document states:

- repeated work, padding and unknown kinds, against its layouts
  (`meshwright_solver.verification.document_checks`)
- its layouts, against its wishes (`meshwright_solver.verification.conformance`)
- its bounds, against bounds that can be proved (`meshwright_solver.verification.bound_claims`)
- its recomputed ops, against their policy (`meshwright_solver.verification.recompute_claims`)
- its search and what else that considered, against the request
  (`meshwright_solver.verification.search_claims`)

Stages of a pipeline are executed one by one, each with random values of its inputs and random
gradients of its outputs. A stage that is right for random values is right for those of its
neighbors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np

from meshwright.schema import (
    Calibration,
    Certificate,
    Graph,
    InvalidInput,
    LayoutError,
    Plan,
    PlanError,
    SequenceOrder,
    Setup,
    Stage,
    Topology,
)
from meshwright_costmodel.calibrations import calibration_of
from meshwright_solver.evaluation.evaluate import check_documents, check_mesh, evaluate
from meshwright_solver.evaluation.sequence_order import check_order, order_checked
from meshwright_solver.pipeline.pipeline_cost import priced
from meshwright_solver.pipeline.rank_placement import group_of
from meshwright_solver.pipeline.stage_problems import Staged
from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem, build_problem
from meshwright_solver.problem.sequence_classes import Sequences
from meshwright_solver.problem.sized_graph import FLOATS
from meshwright_solver.rules.op_knowledge import RECEIVE
from meshwright_solver.verification.bound_claims import check_bounds
from meshwright_solver.verification.conformance import (
    check_stage_wishes,
    check_wishes,
    wished_request,
)
from meshwright_solver.verification.document_checks import (
    check_cost,
    check_facts,
    check_places,
    check_stage,
)
from meshwright_solver.verification.execution.collectives import StepError
from meshwright_solver.verification.execution.comparison import DifferenceError, compare_runs
from meshwright_solver.verification.execution.executor import ShardedRun, run_sharded
from meshwright_solver.verification.execution.kernels import KERNELS, why_not_executable
from meshwright_solver.verification.execution.reference_run import run_whole, seeds_of
from meshwright_solver.verification.execution.scale_down import ScaleError, scale_down
from meshwright_solver.verification.execution.sequence_order import LoadedOrder
from meshwright_solver.verification.execution.shards import Array, DisagreementError
from meshwright_solver.verification.recompute_claims import check_recompute
from meshwright_solver.verification.search_claims import check_search

Outcome = Literal["verified", "failed", "not verifiable"]


def verify_documents(
    plan: Plan,
    graph: Graph,
    topology: Topology,
    setup: Setup,
    calibration: Calibration | None = None,
    seed: int = 0,
) -> Certificate:
    """Verify a plan by its documents: every figure that it states, then its execution.

    Raises PlanError where the plan does not fit the documents, where a number differs from the
    evaluator's, where the plan breaks a wish, and where a bound cannot be proved.
    """
    calibration = calibration_of(plan, calibration)
    if plan.calibration != calibration.id:
        raise PlanError(
            f"the plan is for the calibration {plan.calibration}, not for {calibration.id}"
        )
    if not plan.stages:
        raise PlanError("the plan has no stages. Plan the request again")
    staged: Staged | None = None
    if plan.schedule is not None:
        with _fitting("schedule and microbatches"):
            staged, stages = _pipeline(plan, graph, topology, setup, calibration)
        facts = [
            check_stage(executed.problem, stage, f"stage {number} ")
            for number, (executed, stage) in enumerate(zip(stages, plan.stages, strict=True))
        ]
        judged = priced(staged, plan.stages)
        check_places(plan.stages, judged.stages)
        cost = judged.cost
    else:
        group = group_of(plan, topology)
        with _fitting("microbatches"):
            problem = build_problem(
                graph, group, setup, calibration, plan.microbatches, copies=plan.copies
            )
        stages = [_VerifiedStage(problem, rows=check_order(plan, problem))]
        if plan.topology != topology.id:
            raise PlanError(f"the plan is for topology {plan.topology}, not for {topology.id}")
        cost = evaluate(stages[0].problem, plan.model_copy(update={"topology": group.id}))
        facts = [check_stage(stages[0].problem, plan.stages[0], "", is_only=True)]
    check_facts(plan, facts)
    check_cost(plan.cost, cost, plan.search)
    request = wished_request(plan, graph, topology, setup, calibration)
    check_wishes(plan, request, staged)
    is_recomputed = any(stage.recompute is not None for stage in plan.stages)
    needs_blocks = is_recomputed or request.recompute.policy not in ("none", "auto")
    stage_requests = []
    for number, (executed, stage) in enumerate(zip(stages, plan.stages, strict=True)):
        blocks = None
        if staged is None:
            topology = executed.problem.topology
            stage_request, where = request.model_copy(update={"topology": topology}), ""
        else:
            stage_request, where = staged.request(request, number), f"stage {number}: "
            blocks = staged.blocks[number] if needs_blocks else None
        stage_requests.append(stage_request)
        check_stage_wishes(executed.problem, stage, stage_request, where, blocks)
        check_recompute(executed.problem, stage, where, blocks)
    check_bounds(plan, request, calibration, staged)
    check_search(plan, request, stage_requests)
    return _certificate(plan, stages, seed)


@contextmanager
def _fitting(fields: str) -> Iterator[None]:
    """Name the fields of the plan in an error of bad input that they cause."""
    try:
        yield
    except PlanError:
        raise
    except InvalidInput as error:
        raise PlanError(f"the plan's {fields} do not fit its documents: {error.detail}") from None


def execute_pipeline(
    plan: Plan, graph: Graph, topology: Topology, setup: Setup, *, seed: int = 0
) -> Certificate:
    """Execute a plan of several stages and compare the results; its numbers are not checked."""
    _, stages = _pipeline(plan, graph, topology, setup, calibration_of(plan, None))
    return _certificate(plan, stages, seed)


def _pipeline(
    plan: Plan, graph: Graph, topology: Topology, setup: Setup, calibration: Calibration
) -> tuple[Staged, list[_VerifiedStage]]:
    check_documents(plan, graph.id, topology.id, setup.id)
    staged = Staged.of_plan(plan, graph, topology, setup, calibration)
    rows = order_checked(plan, graph, topology, setup, calibration)
    stages = [
        _VerifiedStage(staged.problem(s), staged.sent(s), rows) for s in range(len(plan.stages))
    ]
    for executed, stage in zip(stages, plan.stages, strict=True):
        check_mesh(executed.problem, stage.mesh)
    return staged, stages


def verify(problem: Problem, plan: Plan, *, seed: int = 0) -> Certificate:
    """Execute a plan of one stage on a scaled-down copy of its graph and compare the results."""
    return _certificate(plan, [_VerifiedStage(problem, rows=check_order(plan, problem))], seed)


@dataclass(frozen=True, slots=True)
class _VerifiedStage:
    """A stage to execute.

    sent: the tensors that the next stage receives and returns gradients of. rows: the sequence
    classes of the whole graph, where the plan states their order.
    """

    problem: Problem
    sent: tuple[str, ...] = ()
    rows: Sequences | None = None


def _certificate(plan: Plan, stages: Sequence[_VerifiedStage], seed: int) -> Certificate:
    tensors = gradients = buckets = 0
    worst = 0.0
    for number, (verified, stage) in enumerate(zip(stages, plan.stages, strict=True)):
        where = f"stage {number}: " if len(stages) > 1 else ""
        outcome: Outcome = "failed"
        try:
            run, error = _execute(verified, stage, plan.order, seed)
        except (_NotVerifiableError, ScaleError) as cause:
            outcome, detail = "not verifiable", str(cause)
        except (StepError, PlanError, LayoutError, DisagreementError, DifferenceError) as failure:
            detail = str(failure)
        else:
            tensors, gradients = tensors + len(run.values), gradients + len(run.gradients)
            buckets += run.buckets
            worst = max(worst, error)
            continue
        return Certificate(plan=plan.id, outcome=outcome, detail=where + detail, seed=seed)
    stand_ins = {
        op.op.kind for stage in stages for op in stage.problem.ops if op.op.kind not in KERNELS
    } - {RECEIVE}
    return Certificate(
        plan=plan.id,
        outcome="verified",
        detail=f"{', '.join(sorted(stand_ins))} ran as a stand-in with the dependences of its rule"
        if stand_ins
        else "",
        tensors=tensors,
        gradients=gradients,
        buckets=buckets,
        worst_error=worst,
        seed=seed,
    )


class _NotVerifiableError(Exception):
    """A stage cannot be executed; the message gives the reason."""


def _execute(
    verified: _VerifiedStage, stage: Stage, order: Sequence[SequenceOrder], seed: int
) -> tuple[ShardedRun, float]:
    """The run of a stage on all its devices, and its worst error."""
    problem, sent = verified.problem, verified.sent
    unknown = {op.op.kind for op in problem.ops if not _has_kernel(op)} - {RECEIVE}
    if unknown:
        raise _NotVerifiableError(f"no numpy kernel for {', '.join(sorted(unknown))}")
    # a stage of frozen parameters has no gradients and is verifiable
    backward = any(info.has_gradient for info in problem.tensors.values())
    if problem.training and backward and problem.graph.loss is None and not sent:
        raise _NotVerifiableError("a training graph without a loss has no gradients")
    ordered = _ordered_slots(verified, order)
    scaled = scale_down(problem.of_stage(stage), stage, ordered)
    sources = random_sources(scaled.problem, seed)
    generator = np.random.default_rng(seed + 1)
    seeds = {name: generator.standard_normal(scaled.problem.tensors[name].shape) for name in sent}
    seeds.update(seeds_of(scaled.problem))
    with np.errstate(all="ignore"):
        whole = run_whole(scaled.problem, sources, seeds)
    undefined = [name for name, own in whole.gradients.items() if np.isnan(own).any()]
    if undefined:
        raise _NotVerifiableError(f"on random data the gradient of {undefined[0]!r} is undefined")
    by_position = frozenset(op for one in order for op in one.by_position)
    loaded = LoadedOrder(scaled.problem, scaled.chunks, by_position)
    sharded = run_sharded(scaled.problem, scaled.stage, sources, seeds, loaded)
    return sharded, compare_runs(scaled.stage.mesh, whole, sharded, loaded)


def _has_kernel(op: OpInfo) -> bool:
    """Whether an op has a numpy kernel, or a stand-in that follows a rule of its own."""
    return op.op.kind in KERNELS or (
        op.op.rule is not None and not why_not_executable(op.op.rule.parsed)
    )


def _ordered_slots(
    verified: _VerifiedStage, order: Sequence[SequenceOrder]
) -> frozenset[tuple[str, int]]:
    """The slots of a stage that are loaded in an order that the plan states."""
    if verified.rows is None:
        return frozenset()
    stated = {one.loaded for one in order}
    return frozenset(
        key
        for key, number in verified.rows.in_problem(verified.problem).items()
        if verified.rows.loaded[number] in stated
    )


def random_sources(problem: Problem, seed: int) -> dict[str, Array]:
    """Random values of all tensors that no op makes; indices stay inside the tensor they index."""
    generator = np.random.default_rng(seed)
    computed = {p.tensor for op in problem.ops if op.op.kind != RECEIVE for p in op.outputs}
    bounds = _index_bounds(problem)
    sources: dict[str, Array] = {}
    for name, info in problem.tensors.items():
        if name in computed:
            continue
        if info.tensor.dtype in FLOATS:
            sources[name] = generator.standard_normal(info.shape)
        elif info.tensor.dtype == "bool":
            sources[name] = generator.integers(0, 2, info.shape).astype(np.bool_)
        else:
            # a single number is no index: a factor of 0 would leave nothing to compare
            least = 0 if info.shape or name in bounds else 1
            sources[name] = generator.integers(least, bounds.get(name, 2), info.shape)
    return sources


def _index_bounds(problem: Problem) -> Mapping[str, int]:
    """Upper bounds of integer sources: the number of rows that they or their results look up."""
    bounds: dict[str, int] = {}
    for op in reversed(problem.ops):
        shapes = [problem.tensors[port.tensor].shape for port in op.inputs]
        if op.op.kind == "embedding":
            bounds[op.inputs[1].tensor] = min(
                shapes[0][0], bounds.get(op.inputs[1].tensor, shapes[0][0])
            )
        elif op.op.kind == "cross_entropy":
            bounds[op.inputs[1].tensor] = shapes[0][-1]
        else:
            passed = [bounds[port.tensor] for port in op.outputs if port.tensor in bounds]
            for port in op.inputs:
                if passed and problem.tensors[port.tensor].tensor.dtype not in FLOATS:
                    bounds[port.tensor] = min(*passed, bounds.get(port.tensor, passed[0]))
    return bounds
