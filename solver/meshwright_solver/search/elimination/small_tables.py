"""Direct elimination: compiled elimination of each node separately, for graphs of tiny tables.

For nodes of few states, the search for repeats and shared tables takes longer than all additions.
Direct elimination shares no table: it takes one order (`greedy_order_kernel.py`), then one pass
over flat arrays of numbers (`small_tables_kernel.py`). A node or an edge may have a count, so that
one copy stands for many.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.search.core.cost_graph import CostGraph, Projection
from meshwright_solver.search.core.interned_tables import CostWeights
from meshwright_solver.search.elimination.greedy_order_kernel import order_of
from meshwright_solver.search.elimination.small_tables_kernel import Factors, least_of

# chosen: entries of one table, and of all together; 12 bytes each
MOST_ENTRIES = 1 << 20
MOST_HELD = 1 << 25


@dataclass(frozen=True, slots=True)
class DirectSolution:
    """The least weighted sum and the states that have it; inf where every choice is forbidden."""

    value: float
    states: IntArray

    def choice(self) -> IntArray:
        """The states, where the value is finite."""
        assert isfinite(self.value)
        return self.states


class DirectElimination:
    """A cost graph as flat arrays. `is_small`: whether its tables are small enough."""

    def __init__(self, graph: CostGraph, of_nodes: FloatArray, of_edges: FloatArray) -> None:
        """of_nodes, of_edges: the count of each, 1 or more."""
        self._extents = graph.extents
        count = len(graph.nodes)
        flat = _Flat()
        places = [flat.place(node.cost, node.memory) for node in graph.nodes]
        places += [
            flat.select(edge.select, graph.nodes[edge.head].cost.size)
            if isinstance(edge, Projection)
            else flat.place(edge.cost, edge.memory)
            for edge in graph.edges
        ]
        tails = np.fromiter((e.tail for e in graph.edges), np.int64, len(graph.edges))
        heads = np.fromiter((e.head for e in graph.edges), np.int64, len(graph.edges))
        self._factors = Factors(
            np.concatenate([np.arange(count), tails]),
            np.concatenate([np.full(count, -1), heads]),
            np.array(places, dtype=np.int64),
            np.concatenate([of_nodes, of_edges]),
        )
        self._cost, self._memory = flat.arrays()
        order = order_of(self._extents, tails, heads, MOST_ENTRIES)
        self._order = order if order is not None and order.entries.sum() <= MOST_HELD else None

    @property
    def is_small(self) -> bool:
        return self._order is not None

    def least(self, weights: CostWeights) -> DirectSolution:
        assert self._order is not None
        numbers = self._cost
        if weights.cost == 0.0:
            numbers = np.where(np.isinf(numbers), np.inf, 0.0)
        elif weights.cost != 1.0:
            numbers = weights.cost * numbers
        if weights.memory:
            numbers = numbers + weights.memory * self._memory
        return DirectSolution(*least_of(self._extents, self._order, self._factors, numbers))

    def memory_bytes(self, choice: IntArray) -> float:
        """The memory of a choice in bytes."""
        factors = self._factors
        states, extents = np.append(choice, 0), np.append(self._extents, 1)
        rows = states[factors.tails] * extents[factors.heads] + states[factors.heads]
        return float(self._memory[factors.places + rows] @ factors.times)


class _Flat:
    """Contiguous arrays, each stored once."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, int], int] = {}
        self._costs: list[FloatArray] = [np.empty(0)]
        self._memories: list[FloatArray] = [np.empty(0)]
        self._size = 0

    def place(self, cost: FloatArray, memory: FloatArray | None) -> int:
        key = (id(cost), id(memory))
        if key not in self._places:
            self._add(key, cost, np.zeros(cost.size) if memory is None else memory)
        return self._places[key]

    def select(self, states: IntArray, heads: int) -> int:
        key = (id(states), -heads)
        if key not in self._places:
            decided = states[:, None] == np.arange(heads)
            self._add(key, np.where(decided, 0.0, np.inf), np.zeros(decided.size))
        return self._places[key]

    def _add(self, key: tuple[int, int], cost: FloatArray, memory: FloatArray) -> None:
        self._places[key] = self._size
        self._costs.append(cost.ravel())
        self._memories.append(memory.ravel())
        self._size += cost.size

    def arrays(self) -> tuple[FloatArray, FloatArray]:
        return np.concatenate(self._costs), np.concatenate(self._memories)
