"""Notes on a plan: what a person should know that no number of it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from solver.assignment import Codes
from solver.lowering import Models
from solver.op_model import OpModel
from solver.uneven import uneven_of

UNEVEN_WOULD_DO = "sizes need not divide where the setup says `uneven: chunk` or `uneven: pad`"


Chosen = Sequence[tuple[int, Codes, int]]  # position of an op, its strategy, how often


def repeated_work(models: Models, chosen: Chosen) -> float:
    """The share of all arithmetic that is done by more devices than need to.

    Every device counts with the valid part of its chunk: padding is not computed on, and waiting
    for the longest chunk is no work.
    """
    useful = done = 0.0
    devices = models.mesh.device_count
    for position, codes, times in chosen:
        model = models.ops.model(position)
        useful += times * model.flops
        done += times * model.flops * devices / float(model.workers(np.array([codes]))[0])
    return max(0.0, 1 - useful / done) if done else 0.0


def idle_axes(models: Models, chosen: Chosen) -> list[str]:
    """Axes on which hardly anything is sharded: their devices repeat each other's work."""
    notes = []
    for a, axis in enumerate(models.mesh.axes):
        flops = useful = 0.0
        for position, codes, times in chosen:
            model = models.ops.model(position)
            flops += model.flops * times
            useful += model.flops * times if _shares(model, codes, a) else 0.0
        # chosen: an axis that carries less than half of the arithmetic is worth a word
        if axis.size == 1 or useful >= flops / 2:
            continue
        why = "sharding more of it would cost more than it saves"
        if _possible(models, chosen, axis.size) < flops / 2:
            why = f"a batch, sequence or head count that divides by {axis.size} would use them"
            refused = models.problem.setup.uneven == "refuse"
            if refused and _possible(_uneven(models), chosen, axis.size) >= flops / 2:
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


def _possible(models: Models, chosen: Chosen, ways: int) -> float:
    """The arithmetic of ops of which a part can be cut into so many chunks."""
    return sum(
        model.flops * times
        for model, times in ((models.ops.model(position), times) for position, _, times in chosen)
        if _divides(model, ways)
    )


def _divides(model: OpModel, ways: int) -> bool:
    lengths = model.spans or model.sizes
    return any(
        length % ways == 0 for length, may in zip(lengths, model.shardable, strict=True) if may
    )
