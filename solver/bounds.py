"""Bounds on every plan of a mesh that need no search; models: of the folded graph."""

from __future__ import annotations

from solver.folding import KEPT, MIDDLE, Folding
from solver.lowering import Models
from solver.values import Value


def work_bound_ns(models: Models, folding: Folding) -> float:
    """Every op at its fastest strategy, and nothing moved."""
    times = _times(folding)
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


def memory_bound_bytes(models: Models, folding: Folding) -> float:
    """On one device: every parameter and every saved value where it lies finest."""
    times = _times(folding)
    least: dict[tuple[int, bool], float] = {}
    total = 0.0
    for value in models.values.values:
        if value.is_free or not (value.is_parameter or value.is_saved):
            continue
        key = (id(models.ops.space(value.root)), value.is_parameter)
        if key not in least:
            least[key] = _least_bytes(models, value)
        total += least[key] * times.get(value.root, 1)
    return total


def _least_bytes(models: Models, value: Value) -> float:
    if value.is_parameter:
        model = models.parameter(value)
        value_bytes, gradient_bytes, optimizer_bytes = model.memory_bytes(model.states)
        return float((value_bytes + gradient_bytes + optimizer_bytes).min())
    space = models.ops.space(value.root)
    return float(space.local_bytes(space.states).min())


def _times(folding: Folding) -> dict[str, int]:
    """How many copies of the whole graph an op or tensor of the folded one stands for."""
    return {
        name: run.copies - KEPT + 1
        for run in folding.runs
        for names in (run.ops, run.tensors)
        for name in names[run.number(MIDDLE)]
    }
