"""Projections: nodes that others decide, each derived from the node that finally decides it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.search.core.cost_graph import CostGraph, Projection
from meshwright_solver.search.message_passing.grouping import by_number, classes


@dataclass(frozen=True, slots=True)
class MergedNodes:
    """The state of heads[i] is selects[kinds[i]][state of tails[i]]."""

    heads: IntArray
    tails: IntArray
    kinds: IntArray
    selects: Sequence[IntArray]

    def __call__(self, states: IntArray, _: dict[int, FloatArray], /) -> None:
        for kind, places in by_number(self.kinds):
            states[self.heads[places]] = self.selects[kind][states[self.tails[places]]]

    def wanted(self) -> IntArray:
        return np.empty(0, dtype=np.int64)


@dataclass(slots=True)
class Deciders:
    """Node n has the state selects[maps[n]][state of roots[n]]; maps[n] is -1 at a root itself.

    rest: the projections that join nothing, because their head is decided already.
    """

    roots: IntArray
    maps: IntArray
    selects: list[IntArray]
    rest: list[Projection]

    @staticmethod
    def of(graph: CostGraph) -> Deciders:
        deciders = Deciders(
            np.arange(len(graph.nodes)), np.full(len(graph.nodes), -1, dtype=np.int64), [], []
        )
        numbers: dict[int, int] = {}
        for edge in graph.edges:
            if not isinstance(edge, Projection):
                continue
            if edge.tail > edge.head or deciders.maps[edge.head] >= 0:
                deciders.rest.append(edge)
                continue
            number = numbers.setdefault(id(edge.select), len(numbers))
            if number == len(deciders.selects):
                deciders.selects.append(edge.select)
            deciders.roots[edge.head] = edge.tail
            deciders.maps[edge.head] = number
        deciders._follow()
        return deciders

    def _follow(self) -> None:
        """Replace every decider that is decided itself by its own decider."""
        while True:
            above = self.roots[self.roots]
            here = np.flatnonzero(above != self.roots)
            if not len(here):
                return
            outer, inner = self.maps[self.roots[here]], self.maps[here]
            first, class_of = classes(outer, inner)
            start = len(self.selects)
            for k in first:
                self.selects.append(self.selects[inner[k]][self.selects[outer[k]]])
            self.maps[here] = start + class_of
            self.roots = above

    def way_back(self) -> MergedNodes:
        decided = np.flatnonzero(self.roots != np.arange(len(self.roots)))
        return MergedNodes(decided, self.roots[decided], self.maps[decided], self.selects)

    def select(self, number: int) -> IntArray | None:
        return None if number < 0 else self.selects[number]
