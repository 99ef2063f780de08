"""An order in which the ops of a graph can run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from meshwright.schema.errors import GraphError

if TYPE_CHECKING:
    from meshwright.schema.graph import Op


def in_order(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """The ops, each after its producers; as they are where that is one already.

    Raises GraphError where ops wait for each other in a circle.
    """
    if _can_run(ops):
        return ops
    producer = {name: op for op in ops for name in op.outputs}
    waiting = {op.name: len({producer[t].name for t in op.inputs if t in producer}) for op in ops}
    readers: dict[str, list[Op]] = {}
    for op in ops:
        for name in {producer[t].name for t in op.inputs if t in producer}:
            readers.setdefault(name, []).append(op)
    order = [op for op in ops if not waiting[op.name]]
    for op in order:
        for reader in readers.get(op.name, ()):
            waiting[reader.name] -= 1
            if not waiting[reader.name]:
                order.append(reader)
    if len(order) < len(ops):
        stuck = next(op for op in ops if waiting[op.name])
        circle = _circle(stuck, producer, waiting)
        raise GraphError(
            f"op {circle[0]!r} is part of a cycle: {' -> '.join(circle)}; a graph holds one "
            "forward pass: unroll the loop or cut it at a tensor of role input",
            pointer=f"/ops/{next(i for i, op in enumerate(ops) if op.name == circle[0])}",
        )
    return tuple(order)


def _can_run(ops: tuple[Op, ...]) -> bool:
    """Whether what ops read of each other is made before."""
    waited_for = {name for op in ops for name in op.outputs}
    for op in ops:
        if not waited_for.isdisjoint(op.inputs):
            return False
        waited_for.difference_update(op.outputs)
    return True


def _circle(start: Op, producer: Mapping[str, Op], stuck: Mapping[str, int]) -> list[str]:
    """Names of the ops along a cycle upstream of `start`; every stuck op has a stuck producer."""
    path: dict[str, None] = {}
    op = start
    while op.name not in path:
        path[op.name] = None
        op = next(producer[t] for t in op.inputs if t in producer and stuck[producer[t].name])
    names = list(path)
    circle = names[names.index(op.name) :][::-1]
    shown = circle if len(circle) <= 6 else [*circle[:3], "…", *circle[-2:]]
    return [*shown, circle[0]]
