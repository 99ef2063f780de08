"""Connected parts of a cost graph, and what a choice costs in each."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from solver.cost_graph import CostGraph, Edge, FloatArray, IntArray


def components(graph: CostGraph) -> IntArray:
    """The number of the connected part of every node."""
    count = len(graph.nodes)
    tails = [edge.tail for edge in graph.edges]
    heads = [edge.head for edge in graph.edges]
    ones = np.ones(len(tails), dtype=np.int8)
    matrix = coo_array((ones, (tails, heads)), shape=(count, count))
    _, labels = connected_components(matrix, directed=False)
    return np.asarray(labels, dtype=np.int64)


def component_costs(graph: CostGraph, labels: IntArray, choice: IntArray) -> FloatArray:
    """What a choice costs in every connected part, in ns."""
    found = np.zeros(int(labels.max()) + 1)
    for k, node in enumerate(graph.nodes):
        found[labels[k]] += node.cost[choice[k]]
    for edge in graph.edges:
        if isinstance(edge, Edge):
            found[labels[edge.tail]] += edge.cost[choice[edge.tail], choice[edge.head]]
    return found
