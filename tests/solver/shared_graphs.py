"""Random cost graphs of many states that share their arrays, wide enough for nothing but exact
elimination to be sure of: forks and joins, parameters that hang on one node, projections."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.search.core.cost_graph import (
    FORBIDDEN,
    CostEdge,
    CostGraph,
    CostNode,
    Projection,
)


def shared_graph(seed: int, nodes: int, limit_share: float | None = None) -> CostGraph:
    """At least so many nodes of up to 30 states, of treewidth two.

    limit_share: where the limit lies between the sum of the least memories of all nodes and edges
    and that of their largest; None: no limit.
    """
    return _Maker(seed).graph(nodes, limit_share)


class _Maker:
    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._forbidden = float(self._random.choice([0.0, 0.0, 0.1]))
        self._sizes = self._random.integers(2, 31, 4).tolist()
        self._pool: dict[tuple[str, int, int, int], FloatArray] = {}
        self._selects: dict[tuple[int, int], IntArray] = {}
        self.nodes: list[CostNode] = []
        self.edges: list[CostEdge | Projection] = []

    def graph(self, count: int, limit_share: float | None) -> CostGraph:
        first = self._node()
        while len(self.nodes) < count:
            first = self._between(first, int(self._random.integers(2, 8)))
        limit = None if limit_share is None else self._limit(limit_share)
        return CostGraph(tuple(self.nodes), tuple(self.edges), limit)

    def _limit(self, share: float) -> float:
        held = [node.memory for node in self.nodes]
        held += [edge.memory for edge in self.edges if isinstance(edge, CostEdge)]
        tables = [table for table in held if table is not None]
        least = sum(float(table.min()) for table in tables)
        most = sum(float(table.max()) for table in tables)
        return float(np.floor(least + share * (most - least)))

    def _between(self, start: int, nodes: int) -> int:
        """A chain from a node, or two side by side that meet again; its last node."""
        if nodes < 4 or self._random.random() < 0.5:
            return self._follow(start)
        one = self._between(start, nodes // 2)
        other = self._between(start, nodes // 2) if self._random.random() < 0.7 else start
        end = self._follow(one)
        self._join(other, end)
        return end

    def _follow(self, before: int) -> int:
        """A node after another; it may have a parameter, or decide what is read of it."""
        node = self._node()
        self._join(before, node)
        if self._random.random() < 0.4:
            self._join(self._node(), node)
        if self._random.random() < 0.4:
            read = self._node()
            size, other = (self.nodes[k].cost.size for k in (node, read))
            select = self._selects.setdefault(
                (size, other), self._random.integers(0, other, size).astype(np.int64)
            )
            self.edges.append(Projection(node, read, select))
            return read
        return node

    def _node(self) -> int:
        size = int(self._random.choice(self._sizes))
        kind = int(self._random.integers(3))
        cost = self._shared(("cost", size, 1, kind), lambda: self._random.random(size) * 100)
        memory = self._shared(("memory", size, 1, kind), lambda: self._bytes(size))
        self.nodes.append(CostNode(f"n{len(self.nodes)}", cost, memory if kind else None))
        return len(self.nodes) - 1

    def _join(self, tail: int, head: int) -> None:
        rows, columns = (self.nodes[node].cost.size for node in (tail, head))
        kind = int(self._random.integers(3))
        cost = self._shared(("pair", rows, columns, kind), lambda: self._pairs(rows, columns))
        memory = self._shared(("held", rows, columns, kind), lambda: self._bytes(rows, columns))
        self.edges.append(CostEdge(tail, head, cost, memory if kind == 2 else None))

    def _bytes(self, *shape: int) -> FloatArray:
        return np.floor(self._random.random(shape) * 1000)

    def _pairs(self, rows: int, columns: int) -> FloatArray:
        drawn: FloatArray = np.floor(self._random.random((rows, columns)) * 1000)
        drawn[self._random.random((rows, columns)) < self._forbidden] = FORBIDDEN
        return drawn

    def _shared(self, key: tuple[str, int, int, int], make: Callable[[], FloatArray]) -> FloatArray:
        if key not in self._pool:
            self._pool[key] = make()
        return self._pool[key]
