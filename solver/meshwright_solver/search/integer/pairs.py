"""A cost graph while it is being reduced: one table for each node, one for each pair of nodes.

Memory lies beside cost, by the lifetime in which it counts; without a limit it is left out. Every
reduction keeps the least cost within the limit and some choice that attains it. `expanded` turns a
choice of what is left into one of the whole graph.

Derived arrays are made once for all tables that hold the very same arrays: repeats stay shared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.search.core.cost_graph import CostEdge, CostGraph, Projection

T = TypeVar("T")

_ROUNDING = 1e-12  # chosen: thousands of additions in doubles err by less

Life = tuple[int, int]
"""Moments first <= m < last in which memory counts."""


@dataclass(frozen=True, slots=True)
class PairTable:
    """What a node (k,) or a pair (k, l) costs and takes; no array of `memory` is all zero."""

    cost: FloatArray
    memory: Mapping[Life, FloatArray]

    def key(self) -> tuple[int, ...]:
        """Equal where all arrays are the same objects."""
        own = [number for life in sorted(self.memory) for number in (*life, id(self.memory[life]))]
        return (id(self.cost), *own)


class Memo:
    """Results by the arrays they are made of; keeps those alive, so that no id is used twice."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[Sequence[PairTable], object]] = {}

    def get(self, key: tuple[object, ...], tables: Sequence[PairTable], make: Callable[[], T]) -> T:
        whole = (*key, *(table.key() for table in tables))
        if whole not in self._known:
            self._known[whole] = (tables, make())
        found: T = self._known[whole][1]  # type: ignore[assignment]  # made under this key
        return found


@dataclass(frozen=True, slots=True)
class Gone:
    """An eliminated node: its state (of the whole graph) by the live places of its neighbours."""

    node: int
    neighbours: tuple[int, ...]
    live: tuple[IntArray, ...]
    state: IntArray


@dataclass
class Pairs:
    """states: by node, its states that are left. constant_ns, constant_bytes: of what is gone.

    memory_error: sums of memories may err by this share of the limit; whole bytes do not.
    """

    moments: int
    limit_bytes: float | None
    memory_error: float
    nodes: dict[int, PairTable]
    states: dict[int, IntArray]
    edges: dict[tuple[int, int], PairTable] = field(default_factory=dict)
    around: dict[int, set[int]] = field(default_factory=dict)
    constant_ns: list[float] = field(default_factory=list)
    constant_bytes: dict[Life, list[float]] = field(default_factory=dict)
    gone: list[Gone] = field(default_factory=list)
    memo: Memo = field(default_factory=Memo)

    @property
    def always(self) -> Life:
        return (0, self.moments)

    def entries(self) -> int:
        return sum(table.cost.size for table in self.edges.values())

    def least_ns(self) -> float:
        """A bound without any search: each table's least."""
        tables = [*self.nodes.values(), *self.edges.values()]
        by_id = {id(table.cost): table.cost for table in tables}
        times = Counter(id(table.cost) for table in tables)
        parts = [float(by_id[key].min()) * count for key, count in times.items()]
        return math.fsum([*parts, *self.constant_ns])

    def edge(self, a: int, b: int) -> PairTable:
        """The table of two neighbours, a's states first."""
        table = self.edges[min(a, b), max(a, b)]
        if a < b:
            return table
        return self.memo.get(("transposed",), [table], lambda: transposed(table))

    def add_edge(self, a: int, b: int, table: PairTable) -> None:
        if a > b:
            a, b, table = b, a, self.memo.get(("transposed",), [table], lambda: transposed(table))
        known = self.edges.get((a, b))
        if known is not None:
            own = (known, table)
            table = self.memo.get(("sum",), own, lambda: added(*own))
        self.edges[a, b] = table
        self.around[a].add(b)
        self.around[b].add(a)

    def remove_edge(self, a: int, b: int) -> None:
        del self.edges[min(a, b), max(a, b)]
        self.around[a].discard(b)
        self.around[b].discard(a)

    def keep(self, node: int, kept: NDArray[np.bool_]) -> None:
        """Only these states of a node are left."""
        mask = kept.tobytes()
        table = self.nodes[node]
        self.nodes[node] = self.memo.get((mask, 0), [table], lambda: taken(table, kept, 0))
        self.states[node] = self.states[node][kept]
        for other in self.around[node]:
            pair = (min(node, other), max(node, other))
            axis = pair.index(node)
            edge = self.edges[pair]
            self.edges[pair] = self.memo.get(
                (mask, axis),
                [edge],
                lambda edge=edge, axis=axis: taken(edge, kept, axis),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            )

    def drop(self, node: int) -> None:
        """Forget a node without edges."""
        assert not self.around[node]
        del self.nodes[node], self.states[node], self.around[node]

    def cost_ns(self, choice: Mapping[int, int]) -> float:
        """Of a choice of what is left, by places."""
        parts = [float(table.cost[choice[node]]) for node, table in self.nodes.items()]
        parts += [float(t.cost[choice[a], choice[b]]) for (a, b), t in self.edges.items()]
        return math.fsum([*parts, *self.constant_ns])

    def profile(self, choice: Mapping[int, int]) -> FloatArray:
        """Memory at each moment of a choice of what is left, by places."""
        found = np.zeros(self.moments)
        for life, parts in self.constant_bytes.items():
            found[life[0] : life[1]] += sum(parts)
        for node, table in self.nodes.items():
            for life, array in table.memory.items():
                found[life[0] : life[1]] += array[choice[node]]
        for (a, b), table in self.edges.items():
            for life, array in table.memory.items():
                found[life[0] : life[1]] += array[choice[a], choice[b]]
        return found

    def expanded(self, choice: Mapping[int, int]) -> IntArray:
        """States of all nodes of the cost graph from the places of those left."""
        found = {node: int(self.states[node][place]) for node, place in choice.items()}
        for gone in reversed(self.gone):
            index = tuple(
                int(np.searchsorted(live, found[other]))
                for other, live in zip(gone.neighbours, gone.live, strict=True)
            )
            found[gone.node] = int(gone.state[index])
        return np.array([found[node] for node in range(len(found))], dtype=np.int64)


def pairs_of(graph: CostGraph) -> Pairs:
    """Parallel edges add up; a projection is a table of 0 and FORBIDDEN."""
    timeline = graph.timeline
    moments = 1 if timeline is None else max(1, timeline.moments)
    limited = graph.memory_limit_bytes is not None
    always = (0, moments)

    def table(cost: FloatArray, memory: FloatArray | None, life: Life) -> PairTable:
        counts = limited and memory is not None and life[0] < life[1] and memory.any()
        return PairTable(cost, {life: memory} if counts and memory is not None else {})

    lives = [always] * len(graph.nodes)
    if timeline is not None:
        lives = list(zip(timeline.first.tolist(), timeline.last.tolist(), strict=True))
    pairs = Pairs(
        moments,
        graph.memory_limit_bytes,
        0.0 if _is_whole(graph) else _ROUNDING,
        {k: table(node.cost, node.memory, lives[k]) for k, node in enumerate(graph.nodes)},
        {k: np.arange(node.cost.size) for k, node in enumerate(graph.nodes)},
        around={k: set() for k in range(len(graph.nodes))},
    )
    decided: dict[tuple[int, int], PairTable] = {}
    for edge in graph.edges:
        if isinstance(edge, CostEdge):
            pairs.add_edge(edge.tail, edge.head, table(edge.cost, edge.memory, always))
        else:
            width = graph.nodes[edge.head].cost.size
            key = (id(edge.select), width)
            if key not in decided:
                decided[key] = PairTable(_dense(edge, width), {})
            pairs.add_edge(edge.tail, edge.head, decided[key])
    return pairs


def _is_whole(graph: CostGraph) -> bool:
    """Whether sums of memories are exact: whole bytes, below 2^53 in all."""
    arrays = [node.memory for node in graph.nodes]
    arrays += [edge.memory for edge in graph.edges if isinstance(edge, CostEdge)]
    known = {id(array): array for array in arrays if array is not None}
    most = {key: float(array.max()) for key, array in known.items()}
    return sum(most[id(array)] for array in arrays if array is not None) < 2**53 and all(
        bool((np.rint(array) == array).all()) for array in known.values()
    )


def _dense(edge: Projection, width: int) -> FloatArray:
    return np.where(edge.select[:, None] == np.arange(width), 0.0, np.inf)


def transposed(table: PairTable) -> PairTable:
    return PairTable(table.cost.T, {life: array.T for life, array in table.memory.items()})


def taken(table: PairTable, kept: NDArray[np.bool_], axis: int) -> PairTable:
    return PairTable(
        np.compress(kept, table.cost, axis),
        {
            life: part
            for life, array in table.memory.items()
            if (part := np.compress(kept, array, axis)).any()
        },
    )


def added(first: PairTable, *others: PairTable) -> PairTable:
    """The sum of tables of shapes that numpy broadcasts."""
    cost = first.cost
    memory = dict(first.memory)
    for other in others:
        cost = cost + other.cost
        for life, array in other.memory.items():
            memory[life] = memory[life] + array if life in memory else array
    for life, array in memory.items():
        if array.shape != cost.shape:
            memory[life] = np.broadcast_to(array, cost.shape)
    return PairTable(cost, memory)
