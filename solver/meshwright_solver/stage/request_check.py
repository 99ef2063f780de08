"""The check of a request without a search."""

from __future__ import annotations

from meshwright.schema import Request
from meshwright_costmodel.calibrations import calibration_for
from meshwright_solver.constraints.group_dims import check_groups
from meshwright_solver.constraints.meshes import meshes_of
from meshwright_solver.constraints.pins import check_axes, pinned_ops
from meshwright_solver.constraints.strategy_filters import filters
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.stage.microbatches import microbatch_counts


def check(request: Request) -> None:
    """Raise what `plan_stage` would raise for bad input, in milliseconds instead of seconds.

    Rules are bound to the shapes of the first number of microbatches, and pins to their ops.
    """
    calibration = calibration_for(request)
    count = microbatch_counts(request)[0]
    problem = build_problem(request.graph, request.topology, request.setup, calibration, count)
    candidates = meshes_of(request, request.budget.max_axes)
    values = find_values(problem)
    pins = pinned_ops(problem, request.pins, values.views)
    check_axes(list(pins.values()), candidates)
    check_groups(problem, candidates)
    filters(problem, request, pins, values, candidates[0])
