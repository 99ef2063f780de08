"""Connected parts of a cost graph, and what a choice costs in each."""

from __future__ import annotations

import numpy as np

from solver.connected import connected
from solver.cost_graph import CostGraph, Edge, FloatArray, IntArray


def components(graph: CostGraph) -> IntArray:
    """The number of the connected part of every node."""
    tails = [edge.tail for edge in graph.edges]
    heads = [edge.head for edge in graph.edges]
    return connected(len(graph.nodes), tails, heads)


def component_costs(graph: CostGraph, labels: IntArray, choice: IntArray) -> FloatArray:
    """What a choice costs in every connected part, in ns."""
    found = np.zeros(int(labels.max()) + 1)
    for k, node in enumerate(graph.nodes):
        found[labels[k]] += node.cost[choice[k]]
    for edge in graph.edges:
        if isinstance(edge, Edge):
            found[labels[edge.tail]] += edge.cost[choice[edge.tail], choice[edge.head]]
    return found
