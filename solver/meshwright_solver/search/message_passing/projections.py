"""Nodes that others decide, by projections: each follows from the one that decides in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.search.core.cost_graph import CostGraph, Projection
from meshwright_solver.search.message_passing.grouping import by_number, classes


@dataclass(frozen=True, slots=True)
class MergedNodes:
    """heads[i] has the state selects[kinds[i]][state of tails[i]]."""

    heads: IntArray
    tails: IntArray
    kinds: IntArray
    selects: Sequence[IntArray]

    def __call__(self, states: IntArray, _: dict[int, FloatArray], /) -> None:
        for kind, own in by_number(self.kinds):
            states[self.heads[own]] = self.selects[kind][states[self.tails[own]]]

    def wanted(self) -> IntArray:
        return np.empty(0, dtype=np.int64)


@dataclass(slots=True)
class Deciders:
    """Node n has the state selects[maps[n]][state of roots[n]]; maps[n] is -1 at a root itself.

    rest: places among the projections of those that join nothing, as their head is decided already.
    """

    roots: IntArray
    maps: IntArray
    selects: list[IntArray]
    rest: list[Projection]

    @staticmethod
    def of(graph: CostGraph) -> Deciders:
        found = Deciders(
            np.arange(len(graph.nodes)), np.full(len(graph.nodes), -1, dtype=np.int64), [], []
        )
        numbers: dict[int, int] = {}
        for edge in graph.edges:
            if not isinstance(edge, Projection):
                continue
            if edge.tail > edge.head or found.maps[edge.head] >= 0:
                found.rest.append(edge)
                continue
            number = numbers.setdefault(id(edge.select), len(numbers))
            if number == len(found.selects):
                found.selects.append(edge.select)
            found.roots[edge.head] = edge.tail
            found.maps[edge.head] = number
        found._follow()
        return found

    def _follow(self) -> None:
        """What is decided by a decided node is decided by whoever decides that."""
        while True:
            above = self.roots[self.roots]
            here = np.flatnonzero(above != self.roots)
            if not len(here):
                return
            outer, inner = self.maps[self.roots[here]], self.maps[here]
            first, own = classes(outer, inner)
            start = len(self.selects)
            for k in first:
                self.selects.append(self.selects[inner[k]][self.selects[outer[k]]])
            self.maps[here] = start + own
            self.roots = above

    def way_back(self) -> MergedNodes:
        decided = np.flatnonzero(self.roots != np.arange(len(self.roots)))
        return MergedNodes(decided, self.roots[decided], self.maps[decided], self.selects)

    def select(self, number: int) -> IntArray | None:
        return None if number < 0 else self.selects[number]
