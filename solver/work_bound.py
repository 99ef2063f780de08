"""A bound that needs no search: every op at its fastest strategy, and nothing moved."""

from __future__ import annotations

from solver.folding import KEPT, MIDDLE, Folding
from solver.lowering import Models


def work_bound_ns(models: Models, folding: Folding) -> float:
    """What every plan on the mesh costs at the least; models: of the folded graph."""
    times = {
        name: run.copies - KEPT + 1 for run in folding.runs for name in run.ops[run.number(MIDDLE)]
    }
    least: dict[int, float] = {}
    total = 0.0
    for position, op in enumerate(models.problem.ops):
        if position in models.values.views:
            continue
        model = models.ops.model(position)
        if id(model) not in least:
            least[id(model)] = float(models.op_cost_ns(model, model.choices).min())
        total += least[id(model)] * times.get(op.name, 1)
    return total
