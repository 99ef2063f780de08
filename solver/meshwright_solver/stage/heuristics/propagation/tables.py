"""Messages: the costs of one node's states for its neighbour, through the edge between them.

    message(s) = min over t of  total(t) + edge(s, t)

Equal totals through the same array are minimised once: repeated blocks share arrays, and mostly
receive equal totals.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.search.core.cost_graph import FORBIDDEN, CostEdge, CostGraph, Projection

AnyEdge = CostEdge | Projection
# chosen: vectors in the cache, which is cleared once it is full
MOST_KEPT = 200_000


@dataclass(slots=True)
class Tables:
    """The edges of a cost graph, read from either end."""

    graph: CostGraph
    _messages: dict[tuple[int, bool, bytes], FloatArray] = field(default_factory=dict)

    def other(self, edge: int, node: int) -> int:
        """The node at the other end of an edge."""
        link = self.graph.edges[edge]
        return link.head if link.tail == node else link.tail

    def message(self, edge: int, to: int, total: FloatArray) -> FloatArray:
        """The least cost of every state of `to`, if the other end's states cost `total`."""
        link = self.graph.edges[edge]
        to_tail = link.tail == to
        content = link.select if isinstance(link, Projection) else link.cost
        key = (id(content), to_tail, total.tobytes())
        vector = self._messages.get(key)
        if vector is None:
            if len(self._messages) >= MOST_KEPT:
                self._messages.clear()
            vector = self._messages[key] = message(link, to_tail, total, self._states(to))
        return vector

    def at_state(self, edge: int, to: int, state: int) -> FloatArray:
        """The cost of every state of `to` with one state of the other end."""
        link = self.graph.edges[edge]
        to_tail = link.tail == to
        if isinstance(link, Projection):
            if to_tail:
                return np.where(link.select == state, 0.0, FORBIDDEN)
            costs = np.full(self._states(to), FORBIDDEN)
            costs[link.select[state]] = 0.0
            return costs
        return link.cost[:, state] if to_tail else link.cost[state]

    def _states(self, node: int) -> int:
        return len(self.graph.nodes[node].cost)


def message(edge: AnyEdge, to_tail: bool, total: FloatArray, states: int) -> FloatArray:
    """The least cost of each of `states` states of one end, if the other's cost `total`."""
    if isinstance(edge, Projection):
        if to_tail:
            return total[edge.select]
        costs = np.full(states, FORBIDDEN)
        np.minimum.at(costs, edge.select, total)
        return costs
    least: FloatArray
    if to_tail:
        least = (edge.cost + total[None, :]).min(axis=1)
    else:
        least = (edge.cost + total[:, None]).min(axis=0)
    return least
