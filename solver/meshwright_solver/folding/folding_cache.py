"""Folding cache: foldings, sized graphs, values and recomputed ops of one graph, shared between
searches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping

from meshwright.schema import Graph, Setup
from meshwright_solver.common.recent import Recent
from meshwright_solver.folding.fold import Folding, foldings
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.recomputed_ops import RecomputedOps
from meshwright_solver.problem.sized_graph import SizedGraph, sized_graph, without_batch
from meshwright_solver.problem.values import Values, find_values

Marks = Mapping[str, Hashable]
# chosen: of all sized graphs that are kept; of some 8,000 ops as many sizes of microbatches as one
# batch of drafts has
_KEPT_OPS = 40_000
_KEPT_SEQUENCES = 16  # chosen: of foldings; a request has a few, one for each recompute policy


class Foldings:
    """Foldings of a graph, computed once.

    Everything that is kept is of the content of the graph and of the arguments, so that searches of
    several requests may share it. Not thread-safe.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._sequences: list[tuple[Marks, list[Folding], Iterator[Folding]]] = []
        self._remade = Recent[RecomputedOps](lambda remade: 1 + len(remade.again), _KEPT_OPS)
        # entries with the objects whose ids are in their keys
        self._sized = Recent[tuple[Graph, SizedGraph]](lambda kept: len(kept[1].ops), _KEPT_OPS)
        self._values = Recent[tuple[object, Values]](lambda kept: len(kept[1].looks), _KEPT_OPS)

    def remade(self, terms: Hashable, make: Callable[[], RecomputedOps]) -> RecomputedOps:
        """Recomputed ops for these terms, which are all inputs besides the graph."""
        return self._remade.get(terms, make)

    def sized(self, graph: Graph, setup: Setup, symbols: Mapping[str, int]) -> SizedGraph:
        """`sized_graph` of the graph, or of a folded one; the last few are kept."""
        key = id(graph), without_batch(setup).id, tuple(sorted(symbols.items()))
        return self._sized.get(key, lambda: (graph, sized_graph(graph, setup, symbols)))[1]

    def values(self, problem: Problem) -> Values:
        """`find_values` of a problem of a kept sized graph; the last few are kept."""
        segments = frozenset(problem.remade.segment_of.items())
        key = id(problem.ops), problem.remade.again, segments
        return self._values.get(key, lambda: (problem.ops, find_values(problem)))[1]

    def of(self, marks: Marks) -> Iterator[Folding]:
        """Foldings for ops that differ by marks, in the order of `foldings`."""
        sequence = next((entry for entry in self._sequences if entry[0] == marks), None)
        if sequence is None:
            sequence = marks, [], foldings(self.graph, marks)
            self._sequences = [*self._sequences[1 - _KEPT_SEQUENCES :], sequence]
        _, known, unread = sequence
        place = 0
        while True:
            if place == len(known):
                folding = next(unread, None)
                if folding is None:
                    return
                known.append(folding)
            yield known[place]
            place += 1


class FoldingCursor:
    """Position in the foldings of a graph. It only moves forward, past foldings with unequal
    copies."""

    def __init__(self, cache: Foldings, marks: Marks) -> None:
        self.marks = marks
        self._foldings = cache.of(marks)
        self.folding = next(self._foldings)

    def fold_less(self) -> None:
        """Move to the next folding, which folds less."""
        self.folding = next(self._foldings)
