"""What every op may be on a mesh: pins, then the constraints of the request, for all ops alike."""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.schema import Mesh, Pin
from solver.cut_pins import keeps_cuts
from solver.data_parallel import batch_parts, data_parallel
from solver.pins import Allowed, allowed_strategies
from solver.problem import Problem


def pin_filters(problem: Problem, pinned: Mapping[int, Pin], mesh: Mesh) -> dict[int, Allowed]:
    """Position of op -> which of its strategies keep its pin on this mesh."""
    found: dict[int, Allowed] = {}
    batch = batch_parts(problem) if any(pin.data_parallel for pin in pinned.values()) else ()
    for position, pin in pinned.items():
        op = problem.ops[position]
        if pin.data_parallel:
            found[position] = data_parallel(batch[position])
        elif pin.strategy is not None:
            found[position] = allowed_strategies(pin, op, mesh)
        else:
            found[position] = keeps_cuts(problem, op, pin, mesh)
    return found
