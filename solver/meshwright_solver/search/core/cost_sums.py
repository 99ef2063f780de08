"""Sums over a cost graph by the arrays that its nodes and edges hold.

Nodes and edges that share an array are looked up together, so that judging a choice takes a few
array operations however often blocks repeat.
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
        """What every node and edge adds to a choice."""
        found = [table[states[nodes]] for table, nodes in self.nodes]
        values: list[float] = np.concatenate([*found, self.at_edges(states)]).tolist()
        return values

    def at_edges(self, states: IntArray) -> FloatArray:
        """What every edge adds to a choice, in the order of `edges`."""
        none: FloatArray = np.empty(0)
        found = [table[states[tails], states[heads]] for table, tails, heads in self.edges]
        return np.concatenate([none, *found])

    def edges_at(self, at_tails: IntArray, at_heads: IntArray) -> FloatArray:
        """The same where the states of the ends are given edge by edge."""
        found = np.empty(len(at_tails))
        start = 0
        for table, tails, _ in self.edges:
            own = slice(start, start + len(tails))
            found[own] = table[at_tails[own], at_heads[own]]
            start = own.stop
        return found


A = TypeVar("A", FloatArray, IntArray)
T = TypeVar("T")


def by_array(
    items: Sequence[T], kinds: IntArray, array: Callable[[T], A | None]
) -> list[tuple[A, IntArray]]:
    """Each array of items with the places of those that hold it; one of a kind is asked."""
    numbers: dict[int, int] = {}
    found: list[A] = []
    first = firsts(kinds)
    of_kind = np.full(len(first), -1, dtype=np.int64)
    for kind, place in enumerate(first.tolist()):
        own = array(items[place]) if place >= 0 else None
        if own is None:
            continue
        number = of_kind[kind] = numbers.setdefault(id(own), len(found))
        if number == len(found):
            found.append(own)
    of_item = of_kind[kinds]
    order = np.argsort(of_item, kind="stable")
    bounds = np.searchsorted(of_item[order], np.arange(len(found) + 1)).tolist()
    return [(own, order[bounds[k] : bounds[k + 1]]) for k, own in enumerate(found)]
