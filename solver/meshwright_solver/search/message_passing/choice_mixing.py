"""The mix of two choices: parts of the graph as in the one, parts as in the other.

Nodes that differ and are joined by edges form one part; parts are independent of each other. The
selection of parts is a knapsack: the largest saving per byte comes first.
"""

from __future__ import annotations

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.connected_components import connected
from meshwright_solver.search.core.cost_graph import CostGraph, evaluate_choice
from meshwright_solver.search.core.cost_sums import CostSums


def mixed(
    graph: CostGraph, within: IntArray, cheaper: IntArray, limit: float
) -> tuple[IntArray, float]:
    """`within`, a choice within the limit, with those parts of `cheaper` that save most and still
    fit; and the saving per byte of the first part that does not fit, 0 where all fit.

    The graph has no lifetimes.
    """
    differs = within != cheaper
    if not differs.any():
        return within, 0.0
    part = _parts(graph, differs)
    saved = _changes(graph.cost_sums, within, cheaper, part, differs)
    taken = -_changes(graph.memory_sums, within, cheaper, part, differs)
    order = np.flatnonzero(np.isfinite(saved) & (saved > 0))
    # parts without memory come first
    worth = saved[order] / np.maximum(taken[order], 1e-9)
    order = order[np.argsort(-worth, kind="stable")]
    room = limit - evaluate_choice(graph, within).memory_bytes
    chosen = np.zeros(len(saved), dtype=np.bool_)
    price = 0.0
    for number in order.tolist():
        if taken[number] <= room:
            room -= taken[number]
            chosen[number] = True
        elif price == 0.0:
            price = float(saved[number] / taken[number])
    return np.where(differs & chosen[part], cheaper, within), price


def _parts(graph: CostGraph, differs: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> IntArray:
    """The part of every node; nodes that do not differ have parts of their own."""
    ends = [(tails, heads) for _, tails, heads in graph.cost_sums.edges]
    ends += [(tails, heads) for _, tails, heads in graph.selects]
    none: IntArray = np.empty(0, dtype=np.int64)
    tails = np.concatenate([none, *(edge_tails for edge_tails, _ in ends)])
    heads = np.concatenate([none, *(edge_heads for _, edge_heads in ends)])
    touching = differs[tails] & differs[heads]
    return connected(len(graph.nodes), tails[touching], heads[touching])


def _changes(
    sums: CostSums,
    before: IntArray,
    after: IntArray,
    part: IntArray,
    differs: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> FloatArray:
    """The value of each part in `before` less that in `after`; not finite where one of them is
    forbidden."""
    count = int(part.max()) + 1
    changes = np.zeros(count)
    with np.errstate(invalid="ignore"):
        for table, nodes in sums.nodes:
            less = table[before[nodes]] - table[after[nodes]]
            changes += np.bincount(part[nodes], less, count)
        for table, tails, heads in sums.edges:
            less = table[before[tails], before[heads]] - table[after[tails], after[heads]]
            owner = np.where(differs[tails], part[tails], part[heads])
            changed = differs[tails] | differs[heads]
            changes += np.bincount(owner[changed], less[changed], count)
    return changes
