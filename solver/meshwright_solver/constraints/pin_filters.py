"""Strategy filters and stated layouts of pins on a mesh."""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.schema import Mesh, Pin
from meshwright_solver.constraints.batch_dims import batch_parts, data_parallel
from meshwright_solver.constraints.dim_pins import keeps_cuts
from meshwright_solver.constraints.pins import allowed_strategies
from meshwright_solver.constraints.stated_outputs import stated_outputs
from meshwright_solver.layouts.stated_layout import StatedLayout
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import Values
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import StrategyFilter


def pin_filters(
    problem: Problem, pinned: Mapping[int, Pin], *, values: Values, mesh: Mesh
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
            filter_of[position] = keeps_cuts(problem, op, pin, values=values, mesh=mesh)
    return filter_of


def stated_layouts(models: Models, pinned: Mapping[int, Pin]) -> dict[str, StatedLayout]:
    """The layouts after a reduction that pins state, by root of value.

    An output that every pinned strategy makes in its stated parts has none.
    """
    problem, values, mesh = models.problem, models.values, models.mesh
    stated: dict[str, StatedLayout] = {}
    for position, pin in pinned.items():
        if pin.inputs is None or pin.outputs is None:
            continue
        op, model = problem.ops[position], models.ops.model(position)
        of_outputs = stated_outputs(problem, op, pin, values=values, mesh=mesh)
        if not of_outputs:
            continue
        keep = keeps_cuts(problem, op, pin, values=values, mesh=mesh)
        choices = model.choices[keep(model, model.choices)]
        for k, layout in of_outputs.items():
            if not layout.holds(model.made(choices, k)).all():
                stated[op.outputs[k].tensor] = layout
    return stated
