"""Cost graphs for tests: small random ones, their optimum by brute force, and repeated blocks."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.search.core.cost_graph import (
    FORBIDDEN,
    CostEdge,
    CostGraph,
    CostNode,
    Projection,
    evaluate_choice,
)


@dataclass(frozen=True)
class Truth:
    """What enumeration says; FORBIDDEN where nothing is within the limit, or nothing is allowed."""

    cost_ns: float
    minimum_memory_bytes: float


def brute_force(graph: CostGraph) -> Truth:
    limit = math.inf if graph.memory_limit_bytes is None else graph.memory_limit_bytes
    least_cost = least_memory = FORBIDDEN
    for choice in itertools.product(*(range(len(node.cost)) for node in graph.nodes)):
        found = evaluate_choice(graph, choice)
        if found.cost_ns == FORBIDDEN:
            continue
        least_memory = min(least_memory, found.memory_bytes)
        if found.memory_bytes <= limit:
            least_cost = min(least_cost, found.cost_ns)
    return Truth(least_cost, least_memory)


def random_graph(seed: int) -> CostGraph:
    """One to six nodes of one to four states: trees, cycles, parallel edges, projections."""
    random = np.random.default_rng(seed)
    largest_cost = random.choice([5.0, 100.0, 1e12])
    whole = random.random() < 0.7
    forbidden = random.choice([0.0, 0.0, 0.1, 0.4])

    def cost(shape: tuple[int, ...], forbidden_share: float) -> FloatArray:
        drawn: FloatArray = random.random(shape) * largest_cost
        if whole:
            drawn = np.floor(drawn)
        drawn[random.random(shape) < forbidden_share] = FORBIDDEN
        return drawn

    def memory(shape: tuple[int, ...], share: float) -> FloatArray | None:
        if random.random() > share:
            return None
        drawn = random.random(shape) * 10
        return np.floor(drawn) if whole else drawn

    extents = [int(k) for k in random.integers(1, 5, random.integers(1, 7))]
    nodes = tuple(
        CostNode(f"n{i}", cost((k,), forbidden * 0.3), memory((k,), 0.7))
        for i, k in enumerate(extents)
    )
    edges: list[CostEdge | Projection] = []
    for _ in range(int(random.integers(0, 2 * len(extents) + 1)) if len(extents) > 1 else 0):
        tail, head = (int(node) for node in random.choice(len(extents), 2, replace=False))
        shape = (extents[tail], extents[head])
        if random.random() < 0.35:
            select = random.integers(0, shape[1], shape[0])
            edges.append(CostEdge.projection(tail, head, select))
        else:
            edges.append(CostEdge(tail, head, cost(shape, forbidden), memory(shape, 0.4)))
    limit = None if random.random() < 0.2 else float(random.integers(0, 12 * len(extents)))
    return CostGraph(nodes, tuple(edges), limit)


def random_chain(seed: int, repeats: int, limit_bytes: float | None = None) -> CostGraph:
    """Blocks that share their arrays, between two nodes of their own; some read a global node."""
    random = np.random.default_rng(seed)
    stream, inner, op = (int(k) for k in random.integers(2, 5, 3))
    with_global = random.random() < 0.3

    def cost(*shape: int) -> FloatArray:
        drawn = random.integers(0, 30, shape).astype(np.float64)
        if random.random() < 0.3:
            drawn[random.random(shape) < 0.15] = FORBIDDEN
        return drawn

    def memory(*shape: int) -> FloatArray:
        return random.integers(0, 10, shape).astype(np.float64)

    op_cost, op_select = cost(op), random.integers(0, stream, op)
    inner_cost, inner_memory = cost(inner), memory(inner)
    stream_cost, stream_memory = cost(stream), memory(stream)
    into_inner, inner_op, skip = cost(stream, inner), cost(inner, op), cost(stream, op)
    skip_memory = memory(stream, op) if random.random() < 0.5 else None
    global_inner = cost(2, inner)

    nodes = [CostNode("first", cost(stream), memory(stream))]
    if with_global:
        nodes.append(CostNode("global", cost(2), memory(2)))
    edges: list[CostEdge | Projection] = []
    before = 0
    for block in range(repeats):
        first = len(nodes)
        nodes.append(CostNode(f"{block}.inner", inner_cost, inner_memory))
        nodes.append(CostNode(f"{block}.op", op_cost))
        nodes.append(CostNode(f"{block}.stream", stream_cost, stream_memory))
        edges.append(CostEdge(before, first, into_inner))
        edges.append(CostEdge(first, first + 1, inner_op))
        edges.append(CostEdge(before, first + 1, skip, skip_memory))
        edges.append(CostEdge.projection(first + 1, first + 2, op_select))
        if with_global:
            edges.append(CostEdge(1, first, global_inner))
        before = first + 2
    nodes.append(CostNode("last", cost(3)))
    edges.append(CostEdge(before, len(nodes) - 1, cost(stream, 3)))
    return CostGraph(tuple(nodes), tuple(edges), limit_bytes)


def unshared(graph: CostGraph) -> CostGraph:
    """The same graph, every node and edge with arrays of its own."""

    def copied(array: FloatArray | None) -> FloatArray | None:
        return None if array is None else array.copy()

    nodes = tuple(CostNode(n.name, n.cost.copy(), copied(n.memory)) for n in graph.nodes)
    edges = tuple(
        Projection(e.tail, e.head, e.select.copy())
        if isinstance(e, Projection)
        else CostEdge(e.tail, e.head, e.cost.copy(), copied(e.memory))
        for e in graph.edges
    )
    return CostGraph(nodes, edges, graph.memory_limit_bytes)
