"""Folding cache: foldings, problems and recomputed ops of one graph, shared between searches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping

from meshwright.schema import Graph
from meshwright_solver.common.identity_keys import IdentityKeys
from meshwright_solver.common.recent import Recent
from meshwright_solver.folding.fold import Folding, foldings
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.recomputed_ops import RecomputedOps
from meshwright_solver.problem.values import Values

Marks = Mapping[str, Hashable]
# chosen: of all problems that are kept; of some 8,000 ops as many numbers of microbatches as one
# batch of drafts has
_KEPT_OPS = 40_000


class Foldings:
    """Foldings of a graph, computed once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._sequences: list[tuple[Marks, list[Folding], Iterator[Folding]]] = []
        self._remade: dict[Hashable, RecomputedOps] = {}
        self._sized = Recent[Problem](lambda problem: len(problem.ops), _KEPT_OPS)
        self._values = Recent[Values](lambda values: len(values.looks), _KEPT_OPS)
        self._key_of = IdentityKeys()

    def remade(self, terms: Hashable, make: Callable[[], RecomputedOps]) -> RecomputedOps:
        """Recomputed ops for these terms, which are all inputs besides the graph."""
        if terms not in self._remade:
            self._remade[terms] = make()
        return self._remade[terms]

    def sized(self, graph: Graph, terms: Hashable, make: Callable[[], Problem]) -> Problem:
        """The problem of the graph, or of a folded one, for these terms; the last few are kept.

        terms: all that its sizes depend on. Topologies and positions of problems with equal terms
        may differ.
        """
        return self._sized.get((self._key_of(graph), terms), make)

    def values(
        self, graph: Graph, terms: Hashable, remade: RecomputedOps, make: Callable[[], Values]
    ) -> Values:
        """The values of such a problem with these ops recomputed; the last few are kept."""
        key = self._key_of(graph), terms, self._key_of(remade)
        return self._values.get(key, make)

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
