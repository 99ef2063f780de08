"""A cost graph under reduction: one table for each node, one for each pair of nodes.

Memory is stored beside cost, by the lifetime in which it counts; without a limit it is omitted.
Every reduction keeps the least cost within the limit and some choice that attains it. `expanded`
turns a choice of the remaining nodes into one of the whole graph.

Derived arrays are computed once for all tables that hold the very same arrays: repeats stay shared.
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
    """Cost and memory of a node (k,) or a pair (k, l); no array of `memory` is all zero."""

    cost: FloatArray
    memory: Mapping[Life, FloatArray]

    def key(self) -> tuple[int, ...]:
        """A key that is equal where all arrays are the same objects."""
        memory_key = [
            number for life in sorted(self.memory) for number in (*life, id(self.memory[life]))
        ]
        return (id(self.cost), *memory_key)


class Memo:
    """A cache by source arrays. It holds these arrays, so that no id is used twice."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[Sequence[PairTable], object]] = {}

    def get(self, key: tuple[object, ...], tables: Sequence[PairTable], make: Callable[[], T]) -> T:
        whole = (*key, *(table.key() for table in tables))
        if whole not in self._known:
            self._known[whole] = (tables, make())
        result: T = self._known[whole][1]  # type: ignore[assignment]  # made under this key
        return result


@dataclass(frozen=True, slots=True)
class EliminatedNode:
    """An eliminated node: its state (of the whole graph) by the live places of its neighbours."""

    node: int
    neighbours: tuple[int, ...]
    live: tuple[IntArray, ...]
    state: IntArray


@dataclass
class Pairs:
    """states: the remaining ones of each node. constant_ns, constant_bytes: of eliminated parts.

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
    gone: list[EliminatedNode] = field(default_factory=list)
    memo: Memo = field(default_factory=Memo)

    @property
    def always(self) -> Life:
        return (0, self.moments)

    def entries(self) -> int:
        return sum(table.cost.size for table in self.edges.values())

    def least_ns(self) -> float:
        """A lower bound without a search: the sum of each table's least."""
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
            summands = (known, table)
            table = self.memo.get(("sum",), summands, lambda: added(*summands))
        self.edges[a, b] = table
        self.around[a].add(b)
        self.around[b].add(a)

    def remove_edge(self, a: int, b: int) -> None:
        del self.edges[min(a, b), max(a, b)]
        self.around[a].discard(b)
        self.around[b].discard(a)

    def keep(self, node: int, flags: NDArray[np.bool_]) -> None:
        """Restrict a node to the flagged states."""
        mask = flags.tobytes()
        table = self.nodes[node]
        self.nodes[node] = self.memo.get(
            (mask, 0), [table], lambda: selected_states(table, flags, 0)
        )
        self.states[node] = self.states[node][flags]
        for other in self.around[node]:
            pair = (min(node, other), max(node, other))
            axis = pair.index(node)
            edge = self.edges[pair]
            self.edges[pair] = self.memo.get(
                (mask, axis),
                [edge],
                lambda edge=edge, axis=axis: selected_states(edge, flags, axis),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            )

    def drop(self, node: int) -> None:
        """Remove a node without edges."""
        assert not self.around[node]
        del self.nodes[node], self.states[node], self.around[node]

    def cost_ns(self, choice: Mapping[int, int]) -> float:
        """The cost of a choice of the remaining nodes, by places."""
        parts = [float(table.cost[choice[node]]) for node, table in self.nodes.items()]
        parts += [float(t.cost[choice[a], choice[b]]) for (a, b), t in self.edges.items()]
        return math.fsum([*parts, *self.constant_ns])

    def profile(self, choice: Mapping[int, int]) -> FloatArray:
        """The memory at each moment of a choice of the remaining nodes, by places."""
        memory_bytes = np.zeros(self.moments)
        for life, parts in self.constant_bytes.items():
            memory_bytes[life[0] : life[1]] += sum(parts)
        for node, table in self.nodes.items():
            for life, array in table.memory.items():
                memory_bytes[life[0] : life[1]] += array[choice[node]]
        for (a, b), table in self.edges.items():
            for life, array in table.memory.items():
                memory_bytes[life[0] : life[1]] += array[choice[a], choice[b]]
        return memory_bytes

    def expanded(self, choice: Mapping[int, int]) -> IntArray:
        """The states of all nodes of the cost graph, from the places of the remaining ones."""
        states = {node: int(self.states[node][place]) for node, place in choice.items()}
        for gone in reversed(self.gone):
            index = tuple(
                int(np.searchsorted(live, states[other]))
                for other, live in zip(gone.neighbours, gone.live, strict=True)
            )
            states[gone.node] = int(gone.state[index])
        return np.array([states[node] for node in range(len(states))], dtype=np.int64)


def pairs_of(graph: CostGraph) -> Pairs:
    """The pairs of a graph. Parallel edges add up; a projection is a table of 0 and FORBIDDEN."""
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


def selected_states(table: PairTable, flags: NDArray[np.bool_], axis: int) -> PairTable:
    return PairTable(
        np.compress(flags, table.cost, axis),
        {
            life: part
            for life, array in table.memory.items()
            if (part := np.compress(flags, array, axis)).any()
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
