"""The outlook of a node: the cost of its states, with that of its neighbourhood.

An op is *settled* once its state is fixed. The state of the next op depends on its own costs and on
the least cost that its neighbours can reach for each of its states. Settled neighbours keep their
state; others take their best, which again depends on their neighbours:

    outlook(u -> i)(s) = min over t of  cost_u(t) + edge(s, t) + sum over w of outlook(w -> u)(t)

with w the other neighbours of u. ROUNDS rounds over the whole graph compute these from zero, so
that each reaches as many edges far. Near the node to be settled they are computed again, because
ops there have been settled since. Where paths meet again, the costs behind count once for each
path; the limited reach keeps that small.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.deadline import ENDLESS, Deadline
from meshwright_solver.search.core.cost_graph import CostGraph
from meshwright_solver.stage.heuristics.propagation.tables import Tables

# chosen: reaches four ops, with the values between them (measured: more changes hardly any plan)
ROUNDS = 12
FRESH = 4  # chosen: edges around a node within which outlooks are computed again

# chosen: beyond a node with more neighbours the stored outlooks are used; otherwise every reader of
# a value that all layers share would examine all others
CROWD = 16

OPEN = -1  # the state of a node that is not settled


class Outlook:
    """The outlooks of a cost graph around settled nodes. state: of every node, OPEN or fixed."""

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
        """The cost of each state of a node, with its neighbourhood."""
        return self.total(node, without=-1, depth=depth)

    def total(self, node: int, without: int, depth: int) -> FloatArray:
        """The same without the message over one edge."""
        costs = self.graph.nodes[node].cost
        for edge in self.around[node]:
            if edge != without:
                costs = costs + self._incoming(edge, node, depth)
        return costs

    def _incoming(self, edge: int, node: int, depth: int) -> FloatArray:
        other = self.tables.other(edge, node)
        if self.state[other] != OPEN:
            return self.tables.at_state(edge, node, int(self.state[other]))
        if depth == 0:
            return self._stored.get((edge, node), _NOTHING)
        further = depth - 1 if len(self.around[other]) <= CROWD else 0
        return self.tables.message(edge, node, _levelled(self.total(other, edge, further)))

    def _look(self, rounds: int, deadline: Deadline) -> None:
        """Compute the rounds over the whole graph; only changes are computed again."""
        changed = set(range(len(self.graph.nodes)))
        for _ in range(rounds):
            new: dict[tuple[int, int], FloatArray] = {}
            for node in sorted(changed):
                deadline.check()
                if self.state[node] == OPEN:
                    self._send(node, new)
            changed = {node for (edge, node), vector in new.items()
                       if self._stored.get((edge, node)) is not vector}  # fmt: skip
            self._stored.update(new)
            if not changed:
                return

    def _send(self, node: int, new: dict[tuple[int, int], FloatArray]) -> None:
        """Send each neighbour of a node the outlook on its other neighbours."""
        edges = self.around[node]
        incoming = [self._incoming(edge, node, 0) for edge in edges]
        rest = _all_but_one(self.graph.nodes[node].cost, incoming)
        for edge, total in zip(edges, rest, strict=True):
            other = self.tables.other(edge, node)
            # a settled node, or one without other neighbours, needs no message
            if self.state[other] == OPEN and len(self.around[other]) > 1:
                new[edge, other] = self.tables.message(edge, other, _levelled(total))


_NOTHING = np.zeros(1)


def _levelled(total: FloatArray) -> FloatArray:
    """Costs less the least of them: a common offset decides nothing."""
    least = total.min()
    return total - least if np.isfinite(least) else total


def _all_but_one(base: FloatArray, incoming: Sequence[FloatArray]) -> list[FloatArray]:
    """For each of `incoming`, the sum of `base` and of the others."""
    before = [base]
    for vector in incoming[:-1]:
        before.append(before[-1] + vector)
    after: FloatArray = np.zeros(1)
    sums = []
    for k in range(len(incoming) - 1, -1, -1):
        sums.append(before[k] + after)
        after = after + incoming[k]
    return sums[::-1]
