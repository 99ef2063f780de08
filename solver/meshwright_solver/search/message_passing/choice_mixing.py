"""Two choices mixed: parts of the graph as in the one, parts as in the other.

Nodes in which they differ and that are joined by edges are one part; parts do not notice each
other. Which parts change is a knapsack: most saved by the byte first.
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
    """`within`, a choice within the limit, with the parts of `cheaper` that save most and still
    fit, and what the first that does not fit saves by the byte, 0 where all fit.

    Of graphs without lifetimes.
    """
    differs = within != cheaper
    if not differs.any():
        return within, 0.0
    part = _parts(graph, differs)
    saved = _changes(graph.cost_sums, within, cheaper, part, differs)
    taken = -_changes(graph.memory_sums, within, cheaper, part, differs)
    order = np.flatnonzero(np.isfinite(saved) & (saved > 0))
    # what takes nothing comes first
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
    tails = np.concatenate([none, *(own for own, _ in ends)])
    heads = np.concatenate([none, *(own for _, own in ends)])
    touching = differs[tails] & differs[heads]
    return connected(len(graph.nodes), tails[touching], heads[touching])


def _changes(
    sums: CostSums,
    before: IntArray,
    after: IntArray,
    part: IntArray,
    differs: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> FloatArray:
    """By part: what it adds to `before` less what it adds to `after`; not finite where one of them
    takes what is forbidden."""
    count = int(part.max()) + 1
    found = np.zeros(count)
    with np.errstate(invalid="ignore"):
        for table, nodes in sums.nodes:
            less = table[before[nodes]] - table[after[nodes]]
            found += np.bincount(part[nodes], less, count)
        for table, tails, heads in sums.edges:
            less = table[before[tails], before[heads]] - table[after[tails], after[heads]]
            owner = np.where(differs[tails], part[tails], part[heads])
            changed = differs[tails] | differs[heads]
            found += np.bincount(owner[changed], less[changed], count)
    return found
