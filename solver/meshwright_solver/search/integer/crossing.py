"""Crossover of two choices of pairs: the sums of all cuts, with memory at every moment."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.search.core.crossover import CutSums
from meshwright_solver.search.integer.pairs import Life, Pairs

_Places = Mapping[int, int]
_NodeArrays = list[tuple[int, FloatArray]]
_EdgeArrays = list[tuple[int, int, FloatArray]]


def crossed(pairs: Pairs, before: _Places, behind: _Places) -> dict[int, int] | None:
    """The cheapest cut within the limit; None where there is none.

    Neither choice, by places of states, may be forbidden.
    """
    order = sorted(pairs.nodes)
    nodes = [(node, table.cost) for node, table in pairs.nodes.items()]
    edges = [(a, b, table.cost) for (a, b), table in pairs.edges.items()]
    cost = _totals(order, nodes, edges, before, behind)
    if pairs.limit_bytes is not None:
        memory = {life: _memory(pairs, life, order, before, behind) for life in _lives(pairs)}
        for moment in range(pairs.moments):
            live = [total for life, total in memory.items() if life[0] <= moment < life[1]]
            cost[sum(live, np.zeros(len(order) + 1)) > pairs.limit_bytes] = np.inf
    cut = int(cost.argmin())
    if cost[cut] == np.inf:
        return None
    return {node: (before if k < cut else behind)[node] for k, node in enumerate(order)}


def _lives(pairs: Pairs) -> set[Life]:
    tables = [*pairs.nodes.values(), *pairs.edges.values()]
    return {life for table in tables for life in table.memory} | {*pairs.constant_bytes}


def _memory(
    pairs: Pairs, life: Life, order: list[int], before: _Places, behind: _Places
) -> FloatArray:
    """The bytes that count in a lifetime, by cut."""
    nodes = [(n, table.memory[life]) for n, table in pairs.nodes.items() if life in table.memory]
    edges = [
        (a, b, table.memory[life]) for (a, b), table in pairs.edges.items() if life in table.memory
    ]
    totals = _totals(order, nodes, edges, before, behind)
    return totals + sum(pairs.constant_bytes.get(life, ()))


def _totals(
    order: list[int], nodes: _NodeArrays, edges: _EdgeArrays, before: _Places, behind: _Places
) -> FloatArray:
    """The sum of these arrays, by cut."""
    rank = {node: place for place, node in enumerate(order)}
    cuts = CutSums(len(order))
    cuts.add_nodes(
        np.array([rank[node] for node, _ in nodes], dtype=np.int64),
        np.array([array[before[node]] for node, array in nodes]),
        np.array([array[behind[node]] for node, array in nodes]),
    )
    cuts.add_edges(
        np.array([rank[a] for a, _, _ in edges], dtype=np.int64),
        np.array([rank[b] for _, b, _ in edges], dtype=np.int64),
        np.array([array[before[a], before[b]] for a, b, array in edges]),
        np.array([array[before[a], behind[b]] for a, b, array in edges]),
        np.array([array[behind[a], behind[b]] for a, b, array in edges]),
    )
    return cuts.totals()
