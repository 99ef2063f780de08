"""Notes on ops that repeat their work although a strategy could share it."""

from __future__ import annotations

from collections.abc import Mapping

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.strategies.mesh_models import Models

SHOWN = 5  # chosen: names in a note


def repeated_notes(models: Models, strategies: Mapping[int, IntArray]) -> list[str]:
    """A note for every axis on which ops are repeated that could be sharded there too."""
    repeated: dict[int, list[int]] = {}
    for position, row in strategies.items():
        model = models.ops.model(position)
        axes = models.shared(
            ("repeated", id(model), row.tobytes()),
            lambda: _repeated(models, position, row),  # noqa: B023  called at once
        )
        for a in axes:
            repeated.setdefault(a, []).append(position)
    notes = []
    for a, positions in sorted(repeated.items()):
        axis = models.mesh.axes[a]
        named = [models.problem.ops[p].name for p in positions]
        more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
        notes.append(
            f"axis {axis.name!r} of size {axis.size}: {len(named)} of {len(strategies)} ops that "
            "could be sharded over it are repeated on its devices, which costs less than to "
            f"re-lay out what they read and make: {', '.join(named[:SHOWN])}{more}"
        )
    return notes


def _repeated(models: Models, position: int, row: IntArray) -> tuple[int, ...]:
    """Axes that share no work of the op, although a strategy that differs only there would."""
    model = models.ops.model(position)
    choices = model.choices
    workers = model.workers(row[None, :])[0]
    differs = choices != row
    axes = []
    for a, size in enumerate(model.axis_sizes):
        if size == 1:
            continue
        alike = differs.sum(axis=1) == differs[:, a]
        if row[a] == model.idle and (model.workers(choices[alike]) > workers).any():
            axes.append(a)
    return tuple(axes)
