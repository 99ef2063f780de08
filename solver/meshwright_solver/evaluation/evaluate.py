"""Evaluator: cost, step time and peak memory of an assignment, recomputed from its layouts.

    objective = sum over ops of compute + inner communication
              + sum over values of the redistributions between produced and required layouts
              + sum over parameters of gathers, gradient reductions, update, spreading
                and host transfers
    step      = the same ops and collectives, with overlap
                (`meshwright_solver.evaluation.step_time.closed_form`)
    memory    = parameters + gradients + optimizer state + cache + saved activations
              + transient memory at the peak (`meshwright_solver.evaluation.memory`) + reserve

The objective weighs communication with the exposed shares of the calibration, so that it is
additive. A search on one mesh minimizes the objective and bounds it. Step time is the number
reported to users. It ranks plans across meshes, microbatches, recompute policies and pipelines.
Plans carry the numbers of the evaluator only. `evaluate(problem, plan)` recomputes them for any
plan document.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from meshwright.schema import Cost, MemoryUse, Mesh, Plan, PlanError
from meshwright_solver.evaluation.accounting.assignment import Assignment
from meshwright_solver.evaluation.accounting.assignment_of_plan import assignment_of_stage
from meshwright_solver.evaluation.accounting.ledger import Ledger, LedgerTotals
from meshwright_solver.evaluation.memory.memory_use import at_fullest, stage_peak
from meshwright_solver.evaluation.memory.peak import Moments
from meshwright_solver.evaluation.memory.stage_memory import stage_moments
from meshwright_solver.evaluation.sequence_order import check_order
from meshwright_solver.evaluation.step_time.closed_form import Lengths, lengths_of
from meshwright_solver.evaluation.step_time.half_batches import in_halves
from meshwright_solver.evaluation.step_time.stage_dag import AssignmentPart, StageDag, dag_of
from meshwright_solver.problem.problem import Problem
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.parameter_owners import extra_bytes


def evaluate(problem: Problem, plan: Plan) -> Cost:
    """Cost of a plan document. Raises PlanError if the plan does not fit the problem."""
    check_documents(plan, problem.graph.id, problem.topology.id, problem.setup.id)
    if plan.microbatches != problem.microbatches:
        raise PlanError(
            f"the plan has {plan.microbatches} microbatches, the problem {problem.microbatches}"
        )
    if len(plan.stages) != 1:
        raise PlanError(f"expected one pipeline stage, the plan has {len(plan.stages)}")
    stage, problem = plan.stages[0], problem.of_plan(plan)
    check_mesh(problem, stage.mesh)
    check_order(plan, problem)
    models = Models.of_stage(problem, stage)
    return cost_of_all(models, assignment_of_stage(models, stage))


def check_documents(plan: Plan, graph: str, topology: str, setup: str) -> None:
    """Raise PlanError if the plan refers to other document ids."""
    if plan.graph != graph or plan.topology != topology:
        raise PlanError(
            f"the plan is for graph {plan.graph} on topology {plan.topology}, not for {graph} on "
            f"{topology}"
        )
    if plan.setup != setup:
        raise PlanError(f"the plan is for the setup {plan.setup}, not for {setup}")


def check_mesh(problem: Problem, mesh: Mesh) -> None:
    """Raise PlanError if the mesh of a plan does not match the devices of the problem."""
    if mesh.device_count != problem.topology.device_count:
        raise PlanError(
            f"the plan's mesh has {mesh.device_count} devices, the topology "
            f"{problem.topology.device_count}"
        )
    for level in problem.topology.levels:
        size = prod(axis.size for axis in mesh.axes if axis.level == level.name)
        if size != level.size:
            raise PlanError(
                f"the plan's mesh has {size} devices along level {level.name!r}, the topology "
                f"{level.size}"
            )


def cost_of_all(models: Models, assignment: Assignment) -> Cost:
    """Cost of a complete assignment. Raises PlanError for inconsistent layouts."""
    part = AssignmentPart.whole(models, assignment)
    dag = dag_of(models, [part], models.problem.position_of)
    moments = stage_moments(models, assignment, part.ledger)
    problem = models.problem
    totals = CostTotals.of(problem, [part])
    memory_bytes = memory_of(problem, totals, moments)
    return cost_of(problem, totals, lengths_in_turn(problem, dag), memory_bytes)


def lengths_in_turn(problem: Problem, dag: StageDag) -> Lengths:
    """Pass durations of a single rank, with unsplit backward passes.

    If the microbatches of a problem take turns, the durations cover both halves of a batch.
    """
    whole = in_halves(dag) if problem.copies > 1 else dag
    return lengths_of(whole, training=problem.training, split=False)


@dataclass(frozen=True, slots=True)
class CostTotals:
    """Sums over the parts of an assignment, each part weighted by its number of copies.

    items: with the optimizer state of the device that holds most of it. parameter_bytes: values on
    a device, without caches. cache_bytes: caches.
    """

    items: LedgerTotals
    parameter_bytes: float
    cache_bytes: float

    @staticmethod
    def of(problem: Problem, parts: Iterable[AssignmentPart]) -> CostTotals:
        ledgers = [(part.ledger, len(part.copies)) for part in parts]
        cache_bytes = sum(times * ledger.value_bytes(problem.caches) for ledger, times in ledgers)
        items = LedgerTotals()
        for ledger, times in ledgers:
            items = items.plus(ledger.totals(), times)
        extra = _extra_bytes(ledgers)
        items = items._replace(optimizer_bytes=items.optimizer_bytes + extra)
        return CostTotals(items, items.value_bytes - cache_bytes, cache_bytes)


def _extra_bytes(ledgers: Iterable[tuple[Ledger, int]]) -> int:
    """Bytes of owned optimizer state on the fullest device beyond the mean over devices."""
    dealt = [
        (item.dealt, times)
        for ledger, times in ledgers
        for item in ledger.parameters.values()
        if item.dealt is not None
    ]
    return extra_bytes(dealt)


def memory_of(problem: Problem, totals: CostTotals, moments: Moments) -> MemoryUse:
    """Peak memory of all parts together. moments: the memory peaks of their joint passes."""
    capacity = problem.topology.device.memory_bytes
    items = totals.items
    resting = MemoryUse(
        parameters=round(totals.parameter_bytes),
        gradients=round(items.gradient_bytes),
        optimizer=round(items.optimizer_bytes),
        activations=round(items.saved_bytes * problem.in_flight),
        cache=round(totals.cache_bytes),
        reserved=round(capacity * problem.setup.memory_reserve),
        capacity=capacity,
        host=round(items.host_bytes),
        host_capacity=problem.topology.host.memory_bytes if problem.topology.host else 0,
    )
    return at_fullest(resting, stage_peak(moments, problem.in_flight, problem.copies))


def cost_of(
    problem: Problem, totals: CostTotals, lengths: Lengths, memory_bytes: MemoryUse
) -> Cost:
    """Cost of all parts together. lengths: the durations of their joint passes."""
    items = totals.items
    moved = {
        "activation": items.activation_ns,
        "parameter": items.gather_ns,
        "gradient": items.reduction_ns,
    }
    exposed = lengths.exposed_ns(problem.rounds)
    if items.host_ns or items.host_up_ns or items.host_down_ns:
        moved["host"] = items.host_ns + items.host_up_ns + items.host_down_ns
    else:
        del exposed["host"]
    shares = problem.calibration.exposed
    return Cost(
        step_ns=items.compute_ns + sum(exposed.values()),
        objective_ns=items.compute_ns
        + (items.activation_ns - items.hidden_ns) * shares.activation
        + (items.gather_ns - items.gather_once_ns + items.host_up_ns) * shares.parameter
        + items.gather_once_ns * shares.parameter_once
        + (items.reduction_ns - items.reduction_once_ns + items.host_down_ns) * shares.gradient
        + items.reduction_once_ns * shares.gradient_once
        + items.host_ns,
        compute_ns=items.compute_ns,
        communication_ns=moved,
        exposed_ns=exposed,
        memory_bytes=memory_bytes,
    )
