"""Memory of a split backward pass between its halves: the buffers of the weights' half.

Each op with a separate weight gradient (`OpModel.weights_share`) keeps its saved or recomputed
inputs, and the gradient of its output. The inputs' half frees all other saved activations.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.evaluation.accounting.assignment import Assignment
from meshwright_solver.evaluation.accounting.ledger import AssignmentShare, Ledger, ledger_of
from meshwright_solver.strategies.mesh_models import Models


def waiting_bytes(models: Models, assignment: Assignment, ledger: Ledger) -> float:
    """Buffer bytes on the device with the most, of one microbatch, without duplicates."""
    return sum(_waiting(models, assignment, ledger, assignment.ops).values())


def waiting_of_ops(
    models: Models, assignment: Assignment, ops: Iterable[int]
) -> dict[tuple[str, str], float]:
    """Buffer bytes of some of the ops, by `input` or `gradient` and the root of the value."""
    values = models.values
    split_ops = [p for p in ops if models.ops.model(p).weights_share > 0.0]
    read = {
        values.value_of[models.problem.ops[position].inputs[k].tensor].root: None
        for position in split_ops
        for k in values.saved_inputs[position]
    }
    share = AssignmentShare((), tuple([values.value_of[root] for root in read]))
    return _waiting(models, assignment, ledger_of(models, assignment, share), split_ops)


def _waiting(
    models: Models, assignment: Assignment, ledger: Ledger, ops: Iterable[int]
) -> dict[tuple[str, str], float]:
    """Buffer bytes by `input` or `gradient` and the root of the value."""
    bytes_of: dict[tuple[str, str], float] = {}
    problem, values, spaces = models.problem, models.values, models.ops
    for position in ops:
        codes, model = assignment.ops[position], spaces.model(position)
        if model.weights_share == 0.0:
            continue
        op, row = problem.ops[position], np.array([codes])
        for k in values.saved_inputs[position]:
            value = values.value_of[op.inputs[k].tensor]
            items = ledger.values.get(value.root)
            if items is None:
                continue  # a parameter, or an input that every device loads itself
            size = items.saved_bytes
            if not size:
                needed = np.array([items.read.codes]) if items.read else model.required(row, k)
                size = _local(models, value.root, needed)
            bytes_of["input", value.root] = size
        for k, port in enumerate(op.outputs):
            if problem.tensors[port.tensor].has_gradient:
                root = values.value_of[port.tensor].root
                bytes_of["gradient", root] = _local(models, root, model.made(row, k))
    return bytes_of


def _local(models: Models, root: str, states: IntArray) -> float:
    """Bytes per device of a value, and of its gradient: a state cuts both alike."""
    return float(models.ops.space(root).local_bytes(states)[0])
