"""Strategy filters of pins on a mesh."""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.schema import Mesh, Pin
from meshwright_solver.constraints.batch_dims import batch_parts, data_parallel
from meshwright_solver.constraints.dim_pins import keeps_cuts
from meshwright_solver.constraints.pins import allowed_strategies
from meshwright_solver.problem.problem import Problem
from meshwright_solver.strategies.op_model import StrategyFilter


def pin_filters(
    problem: Problem, pinned: Mapping[int, Pin], mesh: Mesh
) -> dict[int, StrategyFilter]:
    """Filters that keep the strategies of a pin, by position of op."""
    filter_of: dict[int, StrategyFilter] = {}
    batch = batch_parts(problem) if any(pin.data_parallel for pin in pinned.values()) else ()
    for position, pin in pinned.items():
        op = problem.ops[position]
        if pin.data_parallel:
            filter_of[position] = data_parallel(batch[position])
        elif pin.strategy is not None:
            filter_of[position] = allowed_strategies(pin, op, mesh)
        else:
            filter_of[position] = keeps_cuts(problem, op, pin, mesh)
    return filter_of
