"""Redistribution paths between layouts as steps of a plan document."""

from __future__ import annotations

from math import prod

from meshwright.schema import (
    Layout,
    Step,
)
from meshwright_solver.evaluation.accounting.assignment import (
    layout_of,
)
from meshwright_solver.layouts.redistribution import Path, Placed, Redistributions
from meshwright_solver.layouts.redistribution_memory import peak_elements
from meshwright_solver.layouts.states import PARTIAL
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.strategies.mesh_models import Models

UNNAMED = ""  # tensor name of a content that many tensors share


def steps_of(
    models: Models,
    value: ProblemValue,
    moves: Redistributions,
    path: Path,
    order: tuple[int, ...] = (),
) -> tuple[Step, ...]:
    """Steps of a path.

    order: the ranks of the axes of a parameter. If it is empty, or holds at both ends of the path,
    the layouts of the path determine their own order.
    """
    order = _order_on(path, order, moves.space.slots)

    def layout(placed: Placed) -> Layout:
        codes, ranks = placed.codes, order or placed.ranks
        return layout_of(models, value, codes, partial=moves.space.slots + PARTIAL, order=ranks)

    steps = []
    for move in path:
        before, after = layout(move.before), layout(move.after)
        element_bytes = moves.space.bytes // prod(after.shape)
        steps.append(
            Step(
                kind=move.kind,
                axes=tuple(models.mesh.names[axis] for axis in move.axes),
                payload_bytes=round(move.payload_bytes),
                peak_bytes=element_bytes * peak_elements(move.kind, before, after, models.mesh),
                ns=move.ns,
                to=after,
            )
        )
    return tuple(steps)


def _order_on(path: Path, order: tuple[int, ...], slots: int) -> tuple[int, ...]:
    """Order of axes along a path; empty if the ranks of each layout determine it.

    If the ends of the path have another order, axes that shard a slot only in between come last, in
    the order in which they are placed.
    """
    if not path or not order or all(_is_in(order, end, slots) for end in _ends(path)):
        return ()
    ends = [end.codes for end in _ends(path)]
    ranks = list(order)
    for step, move in enumerate(path, 1 + max(order)):
        for a in move.axes:
            passes = all(codes[a] >= slots for codes in ends)
            if passes and move.before.codes[a] >= slots > move.after.codes[a]:
                ranks[a] = step
    return tuple(ranks)


def _ends(path: Path) -> tuple[Placed, Placed]:
    return path[0].before, path[-1].after


def _is_in(order: tuple[int, ...], placed: Placed, slots: int) -> bool:
    """Whether the axes of every slot are in this order."""
    on_slots = [a for a, code in enumerate(placed.codes) if code < slots]
    by_order = sorted(on_slots, key=lambda a: (placed.codes[a], order[a]))
    return by_order == sorted(on_slots, key=lambda a: (placed.codes[a], placed.ranks[a]))
