"""Unrolling: one level of folding undone in a cost graph.

The middle copy of a run is repeated as a node for every copy of the graph that it stands for. The
edges within a copy and to the copy before come with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from solver.cost_graph import CostGraph, Edge, Projection
from solver.folding import KEPT, MIDDLE, Item, Run
from solver.states import IntArray

AnyEdge = Edge | Projection
Owner = tuple[int, int]  # run, kept copy
Span = tuple[int, int, int]  # first node, nodes, period


class NotAlikeError(Exception):
    """The copies in the middle of a run differ in what they can do or cost."""


class Unrolled:
    """The cost graph of a level, from that of the next, in which runs have only their kept copies.

    slots[run][kept]: nodes of the next level. places[run][copy]: the same of this one, in the same
    order. kept_at: where the nodes of the next level are in this one. origin: of every node the one
    of the next level that it is or repeats.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        owners: Mapping[Item, Owner],
        folded: CostGraph,
        items: Sequence[Item],
        states: Sequence[Any],
    ) -> None:
        """items, states: by node of the next level, what it is and what its states mean."""
        self.runs = runs
        self.folded = folded
        self._items = items
        self._owner = [owners.get(item) for item in items]
        self.slots: list[list[list[int]]] = [[[] for _ in range(KEPT)] for _ in runs]
        # of a node of the next level: its place in its copy
        self._index: dict[int, int] = {}
        for node, owner in enumerate(self._owner):
            if owner is not None:
                own = self.slots[owner[0]][owner[1]]
                self._index[node] = len(own)
                own.append(node)
        self._check_alike(states)
        self.places: list[list[list[int]]] = [[[] for _ in run.ops] for run in runs]
        self.kept_at: IntArray = np.empty(len(items), dtype=np.int64)
        origin: list[int] = []
        spans = self._place(origin)
        self.origin: IntArray = np.array(origin, dtype=np.int64)
        copies = [self._copies_of(edge) for edge in folded.edges]
        self.graph = CostGraph.repeating(
            folded,
            self.origin,
            [moved for own in copies for moved in own],
            np.repeat(np.arange(len(copies)), [len(own) for own in copies]),
            (*self._moved_spans(), *spans),
        )

    def items(self) -> list[Item]:
        """What every node of this level is."""
        found = [self._items[node] for node in self.origin.tolist()]
        for run, places in zip(self.runs, self.places, strict=True):
            for copy in run.middle[1:]:
                names = dict(zip(run.items(MIDDLE), run.items(copy), strict=True))
                for node in places[copy]:
                    found[node] = names[found[node]]
        return found

    def _check_alike(self, states: Sequence[Any]) -> None:
        nodes = self.folded.nodes
        for slots in self.slots:
            first = slots[MIDDLE]
            for kept in (MIDDLE - 1, MIDDLE + 1):
                if len(slots[kept]) != len(first):
                    raise NotAlikeError
                for a, b in zip(first, slots[kept], strict=True):
                    same = nodes[a].cost is nodes[b].cost and nodes[a].memory is nodes[b].memory
                    if not same or states[a] is not states[b]:
                        raise NotAlikeError

    def _place(self, origin: list[int]) -> list[Span]:
        """Give every node its place; the stretches of copies that are alike."""
        spans: list[Span] = []
        done: set[int] = set()
        for node, owner in enumerate(self._owner):
            if owner is not None:
                number, kept = owner
                run, places = self.runs[number], self.places[number]
                if kept > MIDDLE and number not in done:
                    done.add(number)
                    middle = self.slots[number][MIDDLE]
                    for copy in run.middle[1:]:
                        places[copy] += range(len(origin), len(origin) + len(middle))
                        origin += middle
                    # the copies at positions 1 and n - 2 are alike too
                    start = places[MIDDLE][0] - len(middle)
                    spans.append((start, len(middle) * (run.copies - 2), len(middle)))
                places[run.number(kept)].append(len(origin))
            self.kept_at[node] = len(origin)
            origin.append(node)
        return spans

    def _moved_spans(self) -> list[Span]:
        """The stretches of the next level, with all copies in them."""
        found = []
        ends = [*self.kept_at.tolist(), len(self.origin)]
        for first, count, period in self.folded.spans or ():
            start, stop = ends[first], ends[first + count]
            found.append((start, stop - start, (stop - start) // (count // period)))
        return found

    def _copies_of(self, edge: AnyEdge) -> list[AnyEdge]:
        ends = [self._owner[edge.tail], self._owner[edge.head]]
        latest = max((owner for owner in ends if owner is not None), default=None)
        if latest is None:
            return [self._moved(edge, self._kept(edge.tail), self._kept(edge.head))]
        number, kept = latest
        run = self.runs[number]
        inside = [owner for owner in ends if owner is not None and owner[0] == number]
        if len(inside) < 2:
            if any(owner is not None and owner[1] not in (0, KEPT - 1) for owner in ends):
                raise NotAlikeError
            return [self._moved(edge, self._kept(edge.tail), self._kept(edge.head))]
        back = [kept - own for _, own in inside]
        if max(back) > 1:
            raise NotAlikeError
        tail, head = self._index[edge.tail], self._index[edge.head]
        places = self.places[number]
        copies = run.middle if kept == MIDDLE else [run.number(kept)]
        return [
            self._moved(edge, places[copy - back[0]][tail], places[copy - back[1]][head])
            for copy in copies
        ]

    def _kept(self, node: int) -> int:
        return int(self.kept_at[node])

    def _moved(self, edge: AnyEdge, tail: int, head: int) -> AnyEdge:
        if isinstance(edge, Projection):
            return Projection(tail, head, edge.select)
        return Edge(tail, head, edge.cost, edge.memory)
