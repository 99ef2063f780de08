"""Connected parts of a cost graph, and what a choice costs in each."""

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
    """What a choice costs in every connected part, in ns."""
    found = np.zeros(int(labels.max()) + 1)
    for k, node in enumerate(graph.nodes):
        found[labels[k]] += node.cost[choice[k]]
    for edge in graph.edges:
        if isinstance(edge, CostEdge):
            found[labels[edge.tail]] += edge.cost[choice[edge.tail], choice[edge.head]]
    return found
