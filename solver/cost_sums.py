"""Sums over a cost graph by the arrays that its nodes and edges hold.

Nodes and edges that share an array are looked up together, so that judging a choice takes a few
array operations however often blocks repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CostSums:
    """(array, the nodes that hold it), (array, tails, heads of the edges that hold it)."""

    nodes: tuple[tuple[FloatArray, IntArray], ...]
    edges: tuple[tuple[FloatArray, IntArray, IntArray], ...]

    @staticmethod
    def of(
        of_nodes: Sequence[FloatArray | None],
        of_edges: Sequence[FloatArray | None],
        tails: IntArray,
        heads: IntArray,
    ) -> CostSums:
        """None: a node or edge that adds nothing."""
        return CostSums(
            tuple((array, own) for array, own in by_array(of_nodes)),
            tuple((array, tails[own], heads[own]) for array, own in by_array(of_edges)),
        )

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


def by_array(arrays: Sequence[A | None]) -> list[tuple[A, IntArray]]:
    """Each array with the places that hold it, None left out."""
    ids = np.fromiter((0 if a is None else id(a) for a in arrays), np.int64, len(arrays))
    order = np.argsort(ids, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(ids[order])) + 1)
    found = [(arrays[own[0]], own) for own in groups if len(own)]
    return [(array, own) for array, own in found if array is not None]
