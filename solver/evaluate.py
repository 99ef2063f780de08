"""The one judge: what an assignment costs, recomputed from its layouts. Two numbers:

    objective = sum over ops of compute + inner communication
              + sum over values of the redistributions between the layouts that ops make and need
              + sum over parameters of gathers, gradient reductions, update and spreading,
                and of what goes to hosts and back
    step      = the same ops and collectives, each beside what it need not wait for
                (`solver.overlap.closed_form`)
    memory    = parameters + gradients + optimizer state + cache + saved activations
              + what passes by at the fullest moment (`solver.moments`) + reserve

In the objective communication counts with the calibration's exposed share, so that it adds up: it
is what a search on one mesh minimises, and what its bound is of. The step is what people read, and
by what plans of several meshes, microbatches, recompute policies and pipelines are ranked. No
solver reports a number of its own: plans carry what stands here, and `evaluate(problem, plan)` says
it of any plan document.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np

from meshwright.schema import Cost, MemoryUse, Mesh, Plan, PlanError
from solver.assignment import Assignment
from solver.dealing import extra_bytes
from solver.ledger import Ledger
from solver.lowering import Models
from solver.moments.peak import Moments
from solver.moments.stage import stage_moments
from solver.moments.use import alone, at_fullest
from solver.overlap.closed_form import Lengths, lengths_of
from solver.overlap.course import Course, Part, course_of
from solver.overlap.halves import in_halves
from solver.problem import Problem
from solver.sequence_order import check_order
from solver.stage_assignment import assignment_of_stage


def evaluate(problem: Problem, plan: Plan) -> Cost:
    """The cost of a plan document; raises PlanError where it does not fit the problem."""
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


def cost_of_all(models: Models, assignment: Assignment) -> Cost:
    """What an assignment of all there is costs. Raises PlanError for layouts that do not meet."""
    part = Part.whole(models, assignment)
    course = course_of(models, [part], models.problem.position_of)
    moments = stage_moments(models, assignment, part.ledger)
    problem = models.problem
    totals = Totals.of(problem, [part])
    memory_bytes = memory_of(problem, totals, moments)
    return cost_of(problem, totals, lengths_in_turn(problem, course), memory_bytes)


def lengths_in_turn(problem: Problem, course: Course) -> Lengths:
    """Of passes that are one rank's alone: backward ones are whole. Of both halves where they
    take turns."""
    own = in_halves(course) if problem.copies > 1 else course
    return lengths_of(own, training=problem.training, split=False)


@dataclass(frozen=True, slots=True)
class Totals:
    """What parts of an assignment add up to, each as often as it has copies.

    ns of a step: compute on devices, and moved by activations, gathers, reductions; work of hosts,
    and of links from and to them. bytes: of values, caches apart, gradients, optimizer state, saved
    activations and caches on a device, and in its share of its host.
    """

    ns: tuple[float, float, float, float]
    host_ns: tuple[float, float, float]
    resting_bytes: tuple[float, float, float]
    activation_bytes: float
    cache_bytes: float
    host_bytes: float

    @staticmethod
    def of(problem: Problem, parts: Iterable[Part]) -> Totals:
        own = [(part.ledger, len(part.copies)) for part in parts]
        cache = sum(times * ledger.value_bytes(problem.caches) for ledger, times in own)
        found = sum((times * ledger.totals() for ledger, times in own), np.zeros(8)).tolist()
        hosts = sum((times * ledger.host_totals() for ledger, times in own), np.zeros(4)).tolist()
        compute, activation, gathers, reductions, values, gradients, optimizer, saved = found
        work, up, down, host_bytes = hosts
        optimizer += _extra_bytes(own)
        return Totals(
            (compute, activation, gathers, reductions),
            (work, up, down),
            (values - cache, gradients, optimizer),
            saved,
            cache,
            host_bytes,
        )


def _extra_bytes(ledgers: Iterable[tuple[Ledger, int]]) -> int:
    """What the fullest device has beyond the mean of what is dealt out."""
    dealt = [
        (item.dealt, times)
        for ledger, times in ledgers
        for item in ledger.parameters.values()
        if item.dealt is not None
    ]
    return extra_bytes(dealt)


def memory_of(problem: Problem, totals: Totals, moments: Moments) -> MemoryUse:
    """What parts take together at their fullest. moments: of the passes of all of them."""
    capacity = problem.topology.device.memory_bytes
    parameters, gradients, optimizer = totals.resting_bytes
    resting = MemoryUse(
        parameters=round(parameters),
        gradients=round(gradients),
        optimizer=round(optimizer),
        activations=round(totals.activation_bytes * problem.in_flight),
        cache=round(totals.cache_bytes),
        reserved=round(capacity * problem.setup.memory_reserve),
        capacity=capacity,
        host=round(totals.host_bytes),
        host_capacity=problem.topology.host.memory_bytes if problem.topology.host else 0,
    )
    return at_fullest(resting, alone(moments, problem.in_flight, problem.copies))


def cost_of(problem: Problem, totals: Totals, lengths: Lengths, memory_bytes: MemoryUse) -> Cost:
    """What parts cost together. lengths: of the passes of all of them."""
    compute, activation, gathers, reductions = totals.ns
    work_ns, up_ns, down_ns = totals.host_ns
    moved = {"activation": activation, "parameter": gathers, "gradient": reductions}
    exposed = lengths.exposed_ns(problem.rounds)
    if any(totals.host_ns):
        moved["host"] = work_ns + up_ns + down_ns
    else:
        del exposed["host"]
    shares = problem.calibration.exposed
    return Cost(
        step_ns=compute + sum(exposed.values()),
        objective_ns=compute
        + activation * shares.activation
        + (gathers + up_ns) * shares.parameter
        + (reductions + down_ns) * shares.gradient
        + work_ns,
        compute_ns=compute,
        communication_ns=moved,
        exposed_ns=exposed,
        memory_bytes=memory_bytes,
    )
