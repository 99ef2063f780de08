"""The one judge: what an assignment costs, recomputed from its layouts.

    step = sum over ops of compute + inner communication
         + sum over values of the redistributions between the layouts that ops make and need
         + sum over parameters of gathers, gradient reductions, update and spreading,
           and of what goes to hosts and back
    memory = parameters + gradients + optimizer state + cache + saved activations
           + what the largest segment recomputes + reserve

Communication counts with the calibration's exposed share. No solver reports a number of its own:
plans carry what stands here, and `evaluate(problem, plan)` says it of any plan document.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np

from meshwright.schema import Cost, MemoryUse, Mesh, Plan, PlanError
from solver.assignment import assignment_of_stage
from solver.ledger import Ledger, ledger_of
from solver.lowering import Models
from solver.problem import Problem


def evaluate(problem: Problem, plan: Plan) -> Cost:
    """The cost of a plan document; raises PlanError where it does not fit the problem."""
    check_documents(plan, problem.graph.id, problem.topology.id, problem.setup.id)
    if plan.microbatches != problem.microbatches:
        raise PlanError(
            f"the plan has {plan.microbatches} microbatches, the problem {problem.microbatches}"
        )
    if len(plan.stages) != 1:
        raise PlanError(f"expected one pipeline stage, the plan has {len(plan.stages)}")
    stage = plan.stages[0]
    check_mesh(problem, stage.mesh)
    models = Models.of_stage(problem, stage)
    return cost_of_all(models, ledger_of(models, assignment_of_stage(models, stage)))


def check_documents(plan: Plan, graph: str, topology: str, setup: str) -> None:
    """Raise PlanError where the plan is not of the documents with these ids."""
    if plan.graph != graph or plan.topology != topology:
        raise PlanError(
            f"the plan is for graph {plan.graph} on {plan.topology}, not for {graph} on {topology}"
        )
    if plan.setup != setup:
        raise PlanError(f"the plan is for the setup {plan.setup}, not for {setup}")


def check_mesh(problem: Problem, mesh: Mesh) -> None:
    """Raise PlanError where a plan's mesh is not of the problem's devices."""
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


def cost_of_all(models: Models, ledger: Ledger) -> Cost:
    """The totals of a ledger of all there is."""
    return cost_of(models, [(ledger, 1)], max(ledger.working.values(), default=0.0))


def cost_of(models: Models, ledgers: Iterable[tuple[Ledger, int]], recomputed_bytes: float) -> Cost:
    """The totals of ledgers, each as often as it says; recomputed_bytes: of the largest segment."""
    problem = models.problem
    exposed = problem.calibration.exposed
    ledgers = list(ledgers)
    cache = sum(times * ledger.value_bytes(problem.caches) for ledger, times in ledgers)
    totals = sum((times * ledger.totals() for ledger, times in ledgers), np.zeros(8))
    on_host = sum((times * ledger.host_totals() for ledger, times in ledgers), np.zeros(3))
    up_ns, down_ns, host_bytes = on_host.tolist()
    compute, activation, gathers, reductions = totals[:4].tolist()
    full = {"activation": activation, "parameter": gathers, "gradient": reductions}
    waited = {
        "activation": activation * exposed.activation,
        "parameter": gathers * exposed.parameter,
        "gradient": reductions * exposed.gradient,
    }
    if up_ns or down_ns:
        full["host"] = up_ns + down_ns
        waited["host"] = up_ns * exposed.parameter + down_ns * exposed.gradient
    capacity = problem.topology.device.memory_bytes
    return Cost(
        step_ns=compute + sum(waited.values()),
        compute_ns=compute,
        communication_ns=full,
        exposed_ns=waited,
        memory_bytes=MemoryUse(
            parameters=round(totals[4] - cache),
            gradients=round(totals[5]),
            optimizer=round(totals[6]),
            activations=round(totals[7] * problem.in_flight),
            cache=round(cache),
            recomputed=round(recomputed_bytes),
            reserved=round(capacity * problem.setup.memory_reserve),
            capacity=capacity,
            host=round(host_bytes),
            host_capacity=problem.topology.host.memory_bytes if problem.topology.host else 0,
        ),
    )
