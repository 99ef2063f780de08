"""Sums over a cost graph by the arrays that its nodes and edges hold.

Nodes and edges that share an array are looked up together. The evaluation of a choice takes a few
array operations, however often blocks repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.shared_sequence import firsts


@dataclass(frozen=True, slots=True)
class CostSums:
    """(array, the nodes that hold it), (array, tails, heads of the edges that hold it)."""

    nodes: tuple[tuple[FloatArray, IntArray], ...]
    edges: tuple[tuple[FloatArray, IntArray, IntArray], ...]

    def at(self, states: IntArray) -> list[float]:
        """The value of every node and every edge for a choice, nodes first."""
        node_values = [table[states[nodes]] for table, nodes in self.nodes]
        values: list[float] = np.concatenate([*node_values, self.at_edges(states)]).tolist()
        return values

    def at_edges(self, states: IntArray) -> FloatArray:
        """The value of every edge for a choice, in the order of `edges`."""
        none: FloatArray = np.empty(0)
        edge_values = [table[states[tails], states[heads]] for table, tails, heads in self.edges]
        return np.concatenate([none, *edge_values])

    def edges_at(self, at_tails: IntArray, at_heads: IntArray) -> FloatArray:
        """The value of every edge, where the states of both ends are given edge by edge."""
        values = np.empty(len(at_tails))
        start = 0
        for table, tails, _ in self.edges:
            part = slice(start, start + len(tails))
            values[part] = table[at_tails[part], at_heads[part]]
            start = part.stop
        return values


A = TypeVar("A", FloatArray, IntArray)
T = TypeVar("T")


def by_array(
    items: Sequence[T], kinds: IntArray, array: Callable[[T], A | None]
) -> list[tuple[A, IntArray]]:
    """The distinct arrays and the places of the items that hold each; `array` reads one per
    kind."""
    numbers: dict[int, int] = {}
    arrays: list[A] = []
    first = firsts(kinds)
    of_kind = np.full(len(first), -1, dtype=np.int64)
    for kind, place in enumerate(first.tolist()):
        item_array = array(items[place]) if place >= 0 else None
        if item_array is None:
            continue
        number = of_kind[kind] = numbers.setdefault(id(item_array), len(arrays))
        if number == len(arrays):
            arrays.append(item_array)
    of_item = of_kind[kinds]
    order = np.argsort(of_item, kind="stable")
    bounds = np.searchsorted(of_item[order], np.arange(len(arrays) + 1)).tolist()
    return [(table, order[bounds[k] : bounds[k + 1]]) for k, table in enumerate(arrays)]
