"""What one node's costs mean to its neighbour, through the edge between them.

    message(s) = min over t of  total(t) + edge(s, t)

Equal totals through the same array are minimised once: repeated blocks are built of the very same
arrays, and what comes to them is mostly the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.search.core.cost_graph import FORBIDDEN, CostEdge, CostGraph, Projection

AnyEdge = CostEdge | Projection
# chosen: vectors that are kept to be found again; what is not found is computed again
MOST_KEPT = 200_000


@dataclass(slots=True)
class Tables:
    """The edges of a cost graph, read from either end."""

    graph: CostGraph
    _messages: dict[tuple[int, bool, bytes], FloatArray] = field(default_factory=dict)

    def other(self, edge: int, node: int) -> int:
        """The node at the other end of an edge."""
        own = self.graph.edges[edge]
        return own.head if own.tail == node else own.tail

    def message(self, edge: int, to: int, total: FloatArray) -> FloatArray:
        """What every state of `to` costs at best, where the other end's states cost `total`."""
        own = self.graph.edges[edge]
        to_tail = own.tail == to
        content = own.select if isinstance(own, Projection) else own.cost
        key = (id(content), to_tail, total.tobytes())
        found = self._messages.get(key)
        if found is None:
            if len(self._messages) >= MOST_KEPT:
                self._messages.clear()
            found = self._messages[key] = message(own, to_tail, total, self._states(to))
        return found

    def given(self, edge: int, to: int, state: int) -> FloatArray:
        """What every state of `to` costs with one state of the other end."""
        own = self.graph.edges[edge]
        to_tail = own.tail == to
        if isinstance(own, Projection):
            if to_tail:
                return np.where(own.select == state, 0.0, FORBIDDEN)
            found = np.full(self._states(to), FORBIDDEN)
            found[own.select[state]] = 0.0
            return found
        return own.cost[:, state] if to_tail else own.cost[state]

    def _states(self, node: int) -> int:
        return len(self.graph.nodes[node].cost)


def message(edge: AnyEdge, to_tail: bool, total: FloatArray, states: int) -> FloatArray:
    """What every one of the `states` of one end costs at best, where those of the other `total`."""
    if isinstance(edge, Projection):
        if to_tail:
            return total[edge.select]
        found = np.full(states, FORBIDDEN)
        np.minimum.at(found, edge.select, total)
        return found
    least: FloatArray
    if to_tail:
        least = (edge.cost + total[None, :]).min(axis=1)
    else:
        least = (edge.cost + total[:, None]).min(axis=0)
    return least
