"""Foldings of one graph, and its recomputed ops, for searches that ask again and again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping

from meshwright.schema import Graph
from meshwright_solver.folding.fold import Folding, foldings
from meshwright_solver.problem.recomputed_ops import RecomputedOps

Marks = Mapping[str, Hashable]


class Foldings:
    """The foldings of a graph, each made once however many searches ask for it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._sequences: list[tuple[Marks, list[Folding], Iterator[Folding]]] = []
        self._remade: dict[Hashable, RecomputedOps] = {}

    def remade(self, terms: Hashable, make: Callable[[], RecomputedOps]) -> RecomputedOps:
        """The recomputed ops under these terms: all but the graph that they depend on."""
        if terms not in self._remade:
            self._remade[terms] = make()
        return self._remade[terms]

    def of(self, marks: Marks) -> Iterator[Folding]:
        """The foldings of the graph whose ops are told apart by marks, in the order of
        `foldings`."""
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
    """A position in the foldings of a graph. One whose copies are not alike is left for good."""

    def __init__(self, cache: Foldings, marks: Marks) -> None:
        self.marks = marks
        self._foldings = cache.of(marks)
        self.folding = next(self._foldings)

    def fold_less(self) -> None:
        """Go to the next folding."""
        self.folding = next(self._foldings)
