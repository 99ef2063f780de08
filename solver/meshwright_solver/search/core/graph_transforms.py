"""Cost graphs derived from a cost graph: memories as costs, or only forbidden states and pairs.

Shared arrays stay shared, so that repeated blocks stay repeated.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.search.core.cost_graph import CostEdge, CostGraph, CostNode, Projection


def memory_as_cost(graph: CostGraph) -> CostGraph:
    """The graph with memories as costs, forbidden where the costs are; without memory and limit."""

    def memory(part: CostNode | CostEdge) -> FloatArray:
        taken = 0.0 if part.memory is None else part.memory
        return np.where(np.isinf(part.cost), np.inf, taken)

    nodes, edges = _mapped(graph, memory)
    return CostGraph(
        tuple(CostNode(node.name, cost) for node, cost in zip(graph.nodes, nodes, strict=True)),
        tuple(
            CostEdge(edge.tail, edge.head, cost)
            if isinstance(edge, CostEdge) and cost is not None
            else edge
            for edge, cost in zip(graph.edges, edges, strict=True)
        ),
        spans=graph.spans,
    )


def without_costs(graph: CostGraph) -> CostGraph:
    """The graph in which every allowed choice costs nothing; memory and limit stay."""

    def free(part: CostNode | CostEdge) -> FloatArray:
        return np.where(np.isinf(part.cost), np.inf, 0.0)

    nodes, edges = _mapped(graph, free)
    return CostGraph(
        tuple(
            CostNode(node.name, cost, node.memory)
            for node, cost in zip(graph.nodes, nodes, strict=True)
        ),
        tuple(
            CostEdge(edge.tail, edge.head, cost, edge.memory)
            if isinstance(edge, CostEdge) and cost is not None
            else edge
            for edge, cost in zip(graph.edges, edges, strict=True)
        ),
        graph.memory_limit_bytes,
        graph.spans,
        graph.lifetimes,
    )


def _mapped(
    graph: CostGraph, make: Callable[[CostNode | CostEdge], FloatArray]
) -> tuple[list[FloatArray], list[FloatArray | None]]:
    known: dict[tuple[int, int], FloatArray] = {}

    def mapped(part: CostNode | CostEdge) -> FloatArray:
        key = (id(part.cost), id(part.memory))
        if key not in known:
            known[key] = make(part)
        return known[key]

    nodes = [mapped(node) for node in graph.nodes]
    edges = [None if isinstance(edge, Projection) else mapped(edge) for edge in graph.edges]
    return nodes, edges
