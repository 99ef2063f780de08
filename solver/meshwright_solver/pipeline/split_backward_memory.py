"""What the weights' half of a split backward pass needs, from the end of the other half on.

Of every op that makes gradients of parameters apart (`OpModel.weights_share`): the inputs that it
saved, or that were made again for it, and the gradient of what it made. All else that was saved is
let go of by the half of inputs.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.evaluation.accounting.assignment import Assignment
from meshwright_solver.evaluation.accounting.ledger import AssignmentShare, Ledger, ledger_of
from meshwright_solver.strategies.mesh_models import Models


def waiting_bytes(models: Models, assignment: Assignment, ledger: Ledger) -> float:
    """On the fullest device, of one microbatch; each value and each gradient once."""
    return sum(_waiting(models, assignment, ledger, assignment.ops).values())


def waiting_of_ops(
    models: Models, assignment: Assignment, ops: Iterable[int]
) -> dict[tuple[str, str], float]:
    """The same of some of the ops: what waits, and how many bytes of it."""
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
    """By `input` or `gradient` and the root of the value."""
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
                continue  # a parameter, or what every device loads for itself
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
    """Where the state cuts a value, it cuts the gradient too; both are whole elsewhere."""
    return float(models.ops.space(root).local_bytes(states)[0])
