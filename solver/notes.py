"""Notes on a plan: what a person should know that no number of it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solver.assignment import Assignment, Codes
from solver.lowering import Models
from solver.op_model import OpModel
from solver.uneven import uneven_of

UNEVEN_WOULD_DO = "sizes need not divide where the setup says `uneven: chunk` or `uneven: pad`"


def idle_axes(models: Models, assignment: Assignment) -> list[str]:
    """Axes on which hardly anything is sharded: their devices repeat each other's work."""
    notes = []
    for a, axis in enumerate(models.mesh.axes):
        flops = useful = 0.0
        for position, codes in assignment.ops.items():
            model = models.ops.model(position)
            flops += model.flops
            useful += model.flops if _shares(model, codes, a) else 0.0
        # chosen: an axis that carries less than half of the arithmetic is worth a word
        if axis.size == 1 or useful >= flops / 2:
            continue
        why = "sharding more of it would cost more than it saves"
        if _possible(models, assignment, axis.size) < flops / 2:
            why = f"a batch, sequence or head count that divides by {axis.size} would use them"
            refused = models.problem.setup.uneven == "refuse"
            if refused and _possible(_uneven(models), assignment, axis.size) >= flops / 2:
                why += f"; {UNEVEN_WOULD_DO}"
        notes.append(
            f"axis {axis.name!r} of size {axis.size} shards {useful / max(flops, 1):.0%} of "
            f"the arithmetic, the rest is repeated on its devices: {why}"
        )
    return notes


def _shares(model: OpModel, codes: Codes, a: int) -> bool:
    """Whether more devices share the work of an op for having an axis."""
    without = (*codes[:a], model.idle, *codes[a + 1 :])
    with_axis, alone = model.workers(np.array([codes, without]))
    return bool(with_axis > alone)


def _uneven(models: Models) -> Models:
    """The same ops where sizes may be cut unevenly."""
    problem = models.problem
    uneven = uneven_of(problem.ops, problem.tensors, "chunk")
    return Models(replace(problem, uneven=uneven), models.values, models.mesh)


def _possible(models: Models, assignment: Assignment, ways: int) -> float:
    """The arithmetic of ops of which a part can be cut into so many chunks."""
    return sum(
        model.flops
        for model in (models.ops.model(position) for position in assignment.ops)
        if _divides(model, ways)
    )


def _divides(model: OpModel, ways: int) -> bool:
    lengths = model.spans or model.sizes
    return any(
        length % ways == 0 for length, may in zip(lengths, model.shardable, strict=True) if may
    )
