"""Topological orders of the ops of a graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from meshwright.schema.errors import GraphError

if TYPE_CHECKING:
    from meshwright.schema.graph import Op


def in_order(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """A topological order of the ops: the given order if that is one.

    Raises GraphError if the ops have a cycle.
    """
    if _can_run(ops):
        return ops
    producer = {name: op for op in ops for name in op.outputs}
    by_name = {op.name: op for op in ops}
    sorter = TopologicalSorter(dict.fromkeys(by_name, ()))  # this order breaks ties
    for op in ops:
        sorter.add(op.name, *{producer[t].name for t in op.inputs if t in producer})
    with suppress(CycleError):  # the sorter still returns the ops that no cycle blocks
        sorter.prepare()
    order: dict[str, Op] = {}
    while ready := sorter.get_ready():
        order.update((name, by_name[name]) for name in ready)
        sorter.done(*ready)
    if len(order) < len(ops):
        stuck = by_name.keys() - order.keys()
        cycle = _cycle(next(op for op in ops if op.name in stuck), producer, stuck)
        raise GraphError(
            f"op {cycle[0]!r} is part of a cycle: {' -> '.join(cycle)}; a graph has one "
            "forward pass. Unroll the loop or cut it at a tensor of role input",
            pointer=f"/ops/{next(i for i, op in enumerate(ops) if op.name == cycle[0])}",
        )
    return tuple(order.values())


def _can_run(ops: tuple[Op, ...]) -> bool:
    """Whether every op is after its producers."""
    missing = {name for op in ops for name in op.outputs}
    for op in ops:
        if not missing.isdisjoint(op.inputs):
            return False
        missing.difference_update(op.outputs)
    return True


def _cycle(start: Op, producer: Mapping[str, Op], stuck: Collection[str]) -> list[str]:
    """Names of the ops along a cycle upstream of `start`; every stuck op has a stuck producer."""
    path: dict[str, None] = {}
    op = start
    while op.name not in path:
        path[op.name] = None
        op = next(producer[t] for t in op.inputs if t in producer and producer[t].name in stuck)
    names = list(path)
    cycle = names[names.index(op.name) :][::-1]
    excerpt = cycle if len(cycle) <= 6 else [*cycle[:3], "…", *cycle[-2:]]
    return [*excerpt, cycle[0]]
