"""The connected parts of a graph of nodes and edges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solver.cost_graph import IntArray


def connected(
    nodes: int, tails: IntArray | Sequence[int], heads: IntArray | Sequence[int]
) -> IntArray:
    """The number of the connected part of every node."""
    # loading it takes as long as all of the planner: not for searches that never ask
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(tails), dtype=np.int8)
    matrix = coo_array((ones, (tails, heads)), shape=(nodes, nodes))
    _, labels = connected_components(matrix, directed=False)
    return np.asarray(labels, dtype=np.int64)
