"""Foldings of one graph, and what is done again in it, for searches that ask again and again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping

from meshwright.schema import Graph
from solver.folding import Folding, foldings
from solver.remade import Remade


class Foldings:
    """The foldings of a graph, each made once however many searches ask for it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._known: list[tuple[Mapping[str, Hashable], list[Folding], Iterator[Folding]]] = []
        self._remade: dict[Hashable, Remade] = {}

    def remade(self, terms: Hashable, make: Callable[[], Remade]) -> Remade:
        """terms: all but the graph that it depends on."""
        if terms not in self._remade:
            self._remade[terms] = make()
        return self._remade[terms]

    def of(self, marks: Mapping[str, Hashable]) -> Iterator[Folding]:
        """As `foldings` has them."""
        own = next((own for own in self._known if own[0] == marks), None)
        if own is None:
            own = marks, [], foldings(self.graph, marks)
            self._known.append(own)
        _, made, more = own
        at = 0
        while True:
            if at == len(made):
                found = next(more, None)
                if found is None:
                    return
                made.append(found)
            yield made[at]
            at += 1
