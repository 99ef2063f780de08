"""What the neighbourhood of a node makes of its states.

An op is *settled* once its state is fixed. To settle the next one its own costs are not enough:
what its neighbours can make of each state counts too, settled ones as they are, others at their
best, which again depends on their neighbours:

    outlook(u -> i)(s) = min over t of  cost_u(t) + edge(s, t) + sum over w of outlook(w -> u)(t)

with w the other neighbours of u. From nothing these are computed in ROUNDS rounds over the whole
graph, so that each reaches as many edges far. Near the node to be settled they are computed
afresh, because ops there have been settled meanwhile. Where paths meet again, what lies behind is
counted once for each of them; the limited reach keeps that small.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.deadline import ENDLESS, Deadline
from meshwright_solver.search.core.cost_graph import CostGraph
from meshwright_solver.stage.heuristics.propagation.tables import Tables

# chosen: four ops far, with the values between them (measured: more changes hardly any plan)
ROUNDS = 12
FRESH = 4  # chosen: edges around a node within which what was settled meanwhile counts

# chosen: beyond a node with more neighbours the stored outlooks do, or every reader of a value that
# all layers share would look at all others
CROWD = 16

OPEN = -1  # the state of a node that is not settled


class Outlook:
    """The outlooks of a cost graph around what is settled. state: of every node, OPEN or fixed."""

    def __init__(
        self,
        graph: CostGraph,
        state: IntArray,
        deadline: Deadline = ENDLESS,
        rounds: int = ROUNDS,
    ) -> None:
        """Raises OutOfTime."""
        self.graph = graph
        self.state = state
        self.tables = Tables(graph)
        self.around: list[list[int]] = [[] for _ in graph.nodes]
        for k, edge in enumerate(graph.edges):
            self.around[edge.tail].append(k)
            self.around[edge.head].append(k)
        self._stored: dict[tuple[int, int], FloatArray] = {}
        self._look(rounds, deadline)

    def of(self, node: int, depth: int = FRESH) -> FloatArray:
        """What each state of a node costs, with its neighbourhood."""
        return self.total(node, without=-1, depth=depth)

    def total(self, node: int, without: int, depth: int) -> FloatArray:
        """The same without what comes over one edge."""
        found = self.graph.nodes[node].cost
        for edge in self.around[node]:
            if edge != without:
                found = found + self._incoming(edge, node, depth)
        return found

    def _incoming(self, edge: int, node: int, depth: int) -> FloatArray:
        other = self.tables.other(edge, node)
        if self.state[other] != OPEN:
            return self.tables.given(edge, node, int(self.state[other]))
        if depth == 0:
            return self._stored.get((edge, node), _NOTHING)
        further = depth - 1 if len(self.around[other]) <= CROWD else 0
        return self.tables.message(edge, node, _levelled(self.total(other, edge, further)))

    def _look(self, rounds: int, deadline: Deadline) -> None:
        """Rounds over the whole graph; only what changed is computed again."""
        changed = set(range(len(self.graph.nodes)))
        for _ in range(rounds):
            new: dict[tuple[int, int], FloatArray] = {}
            for node in sorted(changed):
                deadline.check()
                if self.state[node] == OPEN:
                    self._tell(node, new)
            changed = {node for (edge, node), own in new.items()
                       if self._stored.get((edge, node)) is not own}  # fmt: skip
            self._stored.update(new)
            if not changed:
                return

    def _tell(self, node: int, new: dict[tuple[int, int], FloatArray]) -> None:
        """What a node makes of its other neighbours, for each of its neighbours."""
        edges = self.around[node]
        incoming = [self._incoming(edge, node, 0) for edge in edges]
        rest = _all_but_one(self.graph.nodes[node].cost, incoming)
        for edge, total in zip(edges, rest, strict=True):
            other = self.tables.other(edge, node)
            # nobody asks what a settled node, or one without other neighbours, is told
            if self.state[other] == OPEN and len(self.around[other]) > 1:
                new[edge, other] = self.tables.message(edge, other, _levelled(total))


_NOTHING = np.zeros(1)


def _levelled(total: FloatArray) -> FloatArray:
    """Costs over the least of them: what all states have in common decides nothing."""
    least = total.min()
    return total - least if np.isfinite(least) else total


def _all_but_one(own: FloatArray, incoming: Sequence[FloatArray]) -> list[FloatArray]:
    """For every one of `incoming`, the sum of `own` and of the others."""
    before = [own]
    for vector in incoming[:-1]:
        before.append(before[-1] + vector)
    after: FloatArray = np.zeros(1)
    found = []
    for k in range(len(incoming) - 1, -1, -1):
        found.append(before[k] + after)
        after = after + incoming[k]
    return found[::-1]
