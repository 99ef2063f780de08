"""A cost graph: choose one state of every node so that

    cost(choice) = sum over nodes n of n.cost[choice[n]]
                 + sum over edges e of e.cost[choice[tail], choice[head]]     is least, while
    memory(choice), the same sum over the memories, is at most memory_limit_bytes.

With lifetimes, node n takes its memory only at the times lifetimes[n, 0] <= t < lifetimes[n, 1],
edges take theirs always, and memory(choice) is the peak: the most that is taken at any one time.

A projection is an edge that costs nothing where head == select[tail] and is forbidden elsewhere:
the tail decides the head. A cost of FORBIDDEN rules a state or a pair out.

Arrays are compared by identity, never by content: nodes and edges of repeated blocks that hold the
very same array objects are solved once. An array in a graph is read-only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.shared_sequence import Repeated, firsts, parts_of
from meshwright_solver.search.core.cost_sums import CostSums, by_array
from meshwright_solver.search.core.live_intervals import Timeline

FORBIDDEN = math.inf


class CostGraphError(ValueError):
    """An invalid cost graph: a shape, an index or a number in it is wrong."""


@dataclass(frozen=True, slots=True)
class CostNode:
    """A node of `len(cost)` states: `cost` in ns, `memory` in bytes, None for no memory."""

    name: str
    cost: FloatArray
    memory: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class CostEdge:
    """The cost of each pair of states: `cost[tail state, head state]` in ns, `memory` in bytes."""

    tail: int
    head: int
    cost: FloatArray
    memory: FloatArray | None = None

    @staticmethod
    def projection(tail: int, head: int, select: IntArray) -> Projection:
        return Projection(tail, head, select)


@dataclass(frozen=True, slots=True)
class Projection:
    """The tail's state decides the head's: head == select[tail]."""

    tail: int
    head: int
    select: IntArray


@dataclass(frozen=True)
class CostGraph:
    """Nodes in topological order and the edges between them; parallel edges add up.

    spans: (first node, nodes, period) of repeated stretches; None where they are not known.
    lifetimes: (n, 2) half-open times in which a node's memory counts, never where both are equal;
    None: always.
    """

    nodes: Sequence[CostNode]
    edges: Sequence[CostEdge | Projection]
    memory_limit_bytes: float | None = None
    spans: tuple[tuple[int, int, int], ...] | None = None
    lifetimes: IntArray | None = None

    @cached_property
    def extents(self) -> IntArray:
        """The number of states of every node."""
        parts, numbers = parts_of(self.nodes)
        sizes: IntArray = np.array([node.cost.size for node in parts], dtype=np.int64)[numbers]
        return sizes

    @cached_property
    def ends(self) -> tuple[IntArray, IntArray]:
        """The tails and the heads of all edges."""
        if isinstance(self.edges, RepeatedEdges):
            return self.edges.tails, self.edges.heads
        return _ends(self.edges)

    @cached_property
    def kinds(self) -> tuple[IntArray, IntArray]:
        """A number for every node and every edge, equal where they hold the very same arrays."""
        nodes, of_nodes = parts_of(self.nodes)
        edges, of_edges = parts_of(self.edges)
        return (
            _numbered([(id(node.cost), id(node.memory)) for node in nodes])[of_nodes],
            _numbered(
                [
                    (id(edge.select), 0)
                    if isinstance(edge, Projection)
                    else (id(edge.cost), id(edge.memory))
                    for edge in edges
                ]
            )[of_edges],
        )

    @cached_property
    def cost_sums(self) -> CostSums:
        return self._sums(lambda part: part.cost)

    @cached_property
    def memory_sums(self) -> CostSums:
        return self._sums(lambda part: part.memory)

    @cached_property
    def timeline(self) -> Timeline | None:
        return None if self.lifetimes is None else Timeline.of(self.lifetimes)

    @cached_property
    def selects(self) -> tuple[tuple[IntArray, IntArray, IntArray], ...]:
        """Projections by the vector they hold, with their tails and heads."""
        tails, heads = self.ends

        def select(edge: CostEdge | Projection) -> IntArray | None:
            return edge.select if isinstance(edge, Projection) else None

        groups = by_array(self.edges, self.kinds[1], select)
        return tuple((vector, tails[places], heads[places]) for vector, places in groups)

    def _sums(self, array: Callable[[CostNode | CostEdge], FloatArray | None]) -> CostSums:
        (of_nodes, of_edges), (tails, heads) = self.kinds, self.ends

        def of_edge(edge: CostEdge | Projection) -> FloatArray | None:
            return array(edge) if isinstance(edge, CostEdge) else None

        edges = by_array(self.edges, of_edges, of_edge)
        return CostSums(
            tuple(by_array(self.nodes, of_nodes, array)),
            tuple((table, tails[places], heads[places]) for table, places in edges),
        )

    def __post_init__(self) -> None:
        limit = self.memory_limit_bytes
        if limit is not None and not limit >= 0:
            raise CostGraphError(f"memory_limit_bytes must be 0 or more, got {limit}")
        checked: dict[int, str | None] = {}
        # repeated parts are checked once: the same arrays, between nodes of as many states
        of_nodes, of_edges = self.kinds
        for node in _in_order(firsts(of_nodes)):
            _check_node(self.nodes[node], checked)
        for edge in _in_order(firsts(of_edges), self._unlike_the_first(of_edges)):
            _check_edge(self.edges[edge], self.nodes, checked)
        if self.lifetimes is not None:
            _check_lifetimes(self.lifetimes, self.nodes)

    def _unlike_the_first(self, of_edges: IntArray) -> IntArray:
        """Edges whose ends have other sizes than those of the first of their kind, or are
        invalid."""
        count = len(self.nodes)
        tails, heads = self.ends
        wrong = (tails < 0) | (tails >= count) | (heads < 0) | (heads >= count) | (tails == heads)
        sizes = np.append(self.extents, 0)
        first = firsts(of_edges)[of_edges]
        for ends in (tails, heads):
            end_sizes = sizes[np.where(wrong, count, ends)]
            wrong |= end_sizes != end_sizes[first]
        return np.flatnonzero(wrong)


class RepeatedEdges(Repeated[CostEdge | Projection]):
    """Edges between these tails and heads; each edge holds the arrays of its part."""

    def __init__(
        self,
        parts: Sequence[CostEdge | Projection],
        numbers: IntArray,
        tails: IntArray,
        heads: IntArray,
    ) -> None:
        super().__init__(parts, numbers)
        self.tails = tails
        self.heads = heads

    def _made(self, part: CostEdge | Projection, place: int) -> CostEdge | Projection:
        tail, head = self.tails.item(place), self.heads.item(place)
        if isinstance(part, Projection):
            return Projection(tail, head, part.select)
        return CostEdge(tail, head, part.cost, part.memory)


@dataclass(frozen=True, slots=True)
class ChoiceCost:
    """The cost of one choice; cost_ns is FORBIDDEN if a state or pair of the choice is
    forbidden."""

    cost_ns: float
    memory_bytes: float


def _in_order(*places: IntArray) -> list[int]:
    merged = np.concatenate(places)
    ordered: list[int] = np.unique(merged[merged >= 0]).tolist()
    return ordered


def _numbered(keys: Sequence[tuple[int, int]]) -> IntArray:
    numbers: dict[tuple[int, int], int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _ends(edges: Sequence[CostEdge | Projection]) -> tuple[IntArray, IntArray]:
    """The tails and the heads."""
    count = len(edges)
    return (
        np.fromiter((edge.tail for edge in edges), np.int64, count),
        np.fromiter((edge.head for edge in edges), np.int64, count),
    )


def evaluate_choice(graph: CostGraph, choice: IntArray | Sequence[int]) -> ChoiceCost:
    """The cost and memory of a choice. This is the only evaluator; its sums are exactly rounded.

    With lifetimes the memory is a running sum: exact for whole bytes below 2^53 in all.
    """
    states = np.asarray(choice, dtype=np.int64)
    if len(states) != len(graph.nodes):
        raise CostGraphError(f"a choice of {len(states)} states for {len(graph.nodes)} nodes")
    wrong = np.flatnonzero((states < 0) | (states >= graph.extents))
    if len(wrong):
        node = graph.nodes[wrong[0]]
        raise CostGraphError(f'node "{node.name}" has no state {states[wrong[0]]}')
    cost = math.fsum(graph.cost_sums.at(states))
    for select, tails, heads in graph.selects:
        if (select[states[tails]] != states[heads]).any():
            cost = FORBIDDEN
    if graph.timeline is None:
        return ChoiceCost(cost, math.fsum(graph.memory_sums.at(states)))
    taken = np.zeros(len(states))
    for memory, nodes in graph.memory_sums.nodes:
        taken[nodes] = memory[states[nodes]]
    always = math.fsum(graph.memory_sums.at_edges(states).tolist())
    return ChoiceCost(cost, always + graph.timeline.peak(taken))


def _check_lifetimes(lifetimes: IntArray, nodes: Sequence[CostNode]) -> None:
    if lifetimes.dtype != np.int64 or lifetimes.shape != (len(nodes), 2):
        actual = f"{lifetimes.dtype} {lifetimes.shape}"
        raise CostGraphError(f"lifetimes need int64 of shape ({len(nodes)}, 2), got {actual}")
    wrong = np.flatnonzero(lifetimes[:, 0] > lifetimes[:, 1])
    if len(wrong):
        start, stop = lifetimes[wrong[0]].tolist()
        name = nodes[wrong[0]].name
        raise CostGraphError(
            f'node "{name}": its lifetime ends at {stop}, before it starts at {start}'
        )


def _check_node(node: CostNode, checked: dict[int, str | None]) -> None:
    what = f'node "{node.name}"'
    if node.cost.ndim != 1 or node.cost.size == 0:
        raise CostGraphError(f"{what}: cost needs shape (k,) with k >= 1, got {node.cost.shape}")
    _check_costs(node.cost, what, checked)
    if node.memory is not None:
        _check_memory(node.memory, node.cost.shape, what, checked)


def _check_edge(
    edge: CostEdge | Projection, nodes: Sequence[CostNode], checked: dict[int, str | None]
) -> None:
    what = f"edge {edge.tail} -> {edge.head}"
    count = len(nodes)
    if not (0 <= edge.tail < count and 0 <= edge.head < count):
        raise CostGraphError(f"{what}: there are only nodes 0 to {count - 1}")
    if edge.tail == edge.head:
        raise CostGraphError(f"{what}: an edge joins two nodes; add this cost to the node")
    shape = (nodes[edge.tail].cost.size, nodes[edge.head].cost.size)
    if isinstance(edge, Projection):
        _check_select(edge, shape)
        return
    if edge.cost.shape != shape:
        raise CostGraphError(f"{what}: cost has shape {edge.cost.shape}, the nodes need {shape}")
    _check_costs(edge.cost, what, checked)
    if edge.memory is not None:
        _check_memory(edge.memory, shape, what, checked)


def _check_select(edge: Projection, shape: tuple[int, int]) -> None:
    what = f"projection {edge.tail} -> {edge.head}"
    select = edge.select
    if select.dtype != np.int64:
        raise CostGraphError(f"{what}: select needs dtype int64, got {select.dtype}")
    if select.shape != shape[:1]:
        raise CostGraphError(f"{what}: select has shape {select.shape}, the tail needs {shape[:1]}")
    if select.min() < 0 or select.max() >= shape[1]:
        raise CostGraphError(f"{what}: select leaves the head's states 0 to {shape[1] - 1}")


def _check_costs(costs: FloatArray, what: str, checked: dict[int, str | None]) -> None:
    """Raise if the array is invalid. Each array object is checked once: repeated blocks share
    it."""
    if id(costs) not in checked:
        checked[id(costs)] = _fault_in_costs(costs)
    if fault := checked[id(costs)]:
        raise CostGraphError(f"{what}: cost {fault}")


def _fault_in_costs(costs: FloatArray) -> str | None:
    if costs.dtype != np.float64:
        return f"needs dtype float64, got {costs.dtype}"
    least = costs.min()
    if np.isnan(least):
        return "holds NaN"
    return "holds -inf" if least == -np.inf else None


def _check_memory(
    memory: FloatArray, shape: tuple[int, ...], what: str, checked: dict[int, str | None]
) -> None:
    if memory.shape != shape:
        raise CostGraphError(f"{what}: memory has shape {memory.shape}, cost has {shape}")
    if -id(memory) not in checked:
        checked[-id(memory)] = _fault_in_memory(memory)
    if fault := checked[-id(memory)]:
        raise CostGraphError(f"{what}: memory {fault}")


def _fault_in_memory(memory: FloatArray) -> str | None:
    if memory.dtype != np.float64:
        return f"needs dtype float64, got {memory.dtype}"
    if not (np.isfinite(memory).all() and memory.min() >= 0):
        return "needs finite bytes, 0 or more; rule a state out by its cost instead"
    return None
