"""Connected parts of a cost graph, and the cost of a choice in each."""

from __future__ import annotations

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.connected_components import connected
from meshwright_solver.search.core.cost_graph import CostEdge, CostGraph


def components(graph: CostGraph) -> IntArray:
    """The number of the connected part of every node."""
    tails = [edge.tail for edge in graph.edges]
    heads = [edge.head for edge in graph.edges]
    return connected(len(graph.nodes), tails, heads)


def component_costs(graph: CostGraph, labels: IntArray, choice: IntArray) -> FloatArray:
    """The cost of a choice in every connected part, in ns."""
    costs = np.zeros(int(labels.max()) + 1)
    for k, node in enumerate(graph.nodes):
        costs[labels[k]] += node.cost[choice[k]]
    for edge in graph.edges:
        if isinstance(edge, CostEdge):
            costs[labels[edge.tail]] += edge.cost[choice[edge.tail], choice[edge.head]]
    return costs
