"""Folding cache: foldings and recomputed ops of one graph, shared between searches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping

from meshwright.schema import Graph
from meshwright_solver.folding.fold import Folding, foldings
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.recomputed_ops import RecomputedOps
from meshwright_solver.problem.values import Values

Marks = Mapping[str, Hashable]
_KEPT_PROBLEMS = 4  # chosen: as many numbers of microbatches as one batch of drafts has


class Foldings:
    """Foldings of a graph, computed once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._sequences: list[tuple[Marks, list[Folding], Iterator[Folding]]] = []
        self._remade: dict[Hashable, RecomputedOps] = {}
        self._originals: dict[Hashable, tuple[Problem, Values]] = {}

    def remade(self, terms: Hashable, make: Callable[[], RecomputedOps]) -> RecomputedOps:
        """Recomputed ops for these terms, which are all inputs besides the graph."""
        if terms not in self._remade:
            self._remade[terms] = make()
        return self._remade[terms]

    def original(
        self, terms: Hashable, make: Callable[[], tuple[Problem, Values]]
    ) -> tuple[Problem, Values]:
        """The problem of the whole graph for these terms, for recomputation; the last few are kept.

        terms: all that recomputed ops depend on, besides the policy. The topologies of problems
        with equal terms may differ.
        """
        problem = self._originals.pop(terms, None) or make()
        self._originals[terms] = problem
        if len(self._originals) > _KEPT_PROBLEMS:
            del self._originals[next(iter(self._originals))]
        return problem

    def of(self, marks: Marks) -> Iterator[Folding]:
        """Foldings for ops that differ by marks, in the order of `foldings`."""
        sequence = next((entry for entry in self._sequences if entry[0] == marks), None)
        if sequence is None:
            sequence = marks, [], foldings(self.graph, marks)
            self._sequences.append(sequence)
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
