"""A cost graph as flat arrays, for compiled loops.

    cost(states) = constant + sum over nodes of unary + sum over edges of pair
    taken[m]     = base[m]  + sum over terms that live at moment m of usage[state of their node]

All entries of `unary` and `pair` are finite, or +inf where forbidden. A node may have any number
of memory terms: a joined node has those of all its nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.search.core.cost_graph import CostEdge, CostGraph, Projection


class PairwiseModel(NamedTuple):
    """Node n has the entries starts[n]:starts[n+1] of `unary`, edge e, row-major with tails[e] <
    heads[e], tables[e]:tables[e+1] of `pair`; at most one edge joins two nodes. Node n's terms are
    first_term[n]:first_term[n+1]; term j counts at the moments since[j] <= m < until[j] and has
    the entries usages[j]:usages[j+1] of `usage`, in bytes.
    """

    starts: IntArray
    unary: FloatArray
    tails: IntArray
    heads: IntArray
    tables: IntArray
    pair: FloatArray
    first_term: IntArray
    since: IntArray
    until: IntArray
    usages: IntArray
    usage: FloatArray
    base: FloatArray
    constant: float

    @property
    def nodes(self) -> int:
        return len(self.starts) - 1

    @property
    def edges(self) -> int:
        return len(self.tails)

    @property
    def extents(self) -> IntArray:
        return np.diff(self.starts)

    @property
    def moments(self) -> int:
        return len(self.base)


def offsets(counts: IntArray) -> IntArray:
    """The starts of consecutive pieces, and the end of the last."""
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def model_of(graph: CostGraph) -> PairwiseModel:
    """The lossless model of a graph. An edge with memory becomes a node of its pairs of states."""
    extents = graph.extents.tolist()
    unary: list[FloatArray] = [node.cost for node in graph.nodes]
    tails: list[int] = []
    heads: list[int] = []
    pair: list[FloatArray] = []
    owners: list[int] = []
    usage: list[FloatArray] = []
    for number, node in enumerate(graph.nodes):
        if node.memory is not None:
            owners.append(number)
            usage.append(node.memory)
    for edge in graph.edges:
        a, b = edge.tail, edge.head
        if isinstance(edge, Projection):
            table = np.full((extents[a], extents[b]), np.inf)
            table[np.arange(extents[a]), edge.select] = 0.0
        elif _has_node(edge):
            rows, columns = _pairs(edge)
            owners.append(len(unary))
            assert edge.memory is not None
            usage.append(edge.memory[rows, columns])
            for end, states in ((a, rows), (b, columns)):
                table = np.full((len(rows), extents[end]), np.inf)
                table[np.arange(len(rows)), states] = 0.0
                tails.append(end)
                heads.append(len(unary))
                pair.append(np.ascontiguousarray(table.T).ravel())
            unary.append(edge.cost[rows, columns])
            continue
        else:
            table = edge.cost
        tails.append(min(a, b))
        heads.append(max(a, b))
        pair.append((table if a < b else table.T).ravel())
    return _assembled(graph, unary, tails, heads, pair, owners, usage)


def states_of(graph: CostGraph, choice: IntArray) -> IntArray:
    """A choice as states of the model's nodes."""
    states = choice.tolist()
    for edge in graph.edges:
        if isinstance(edge, CostEdge) and _has_node(edge):
            rows, columns = _pairs(edge)
            same = (rows == choice[edge.tail]) & (columns == choice[edge.head])
            states.append(int(np.argmax(same)))
    return np.array(states, dtype=np.int64)


def _has_node(edge: CostEdge) -> bool:
    return edge.memory is not None and bool(edge.memory.any())


def _pairs(edge: CostEdge) -> tuple[IntArray, IntArray]:
    """The pairs of states of an edge's node: the allowed ones, or any one if there are none."""
    rows, columns = np.nonzero(np.isfinite(edge.cost))
    if not len(rows):
        return np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    return rows.astype(np.int64), columns.astype(np.int64)


def _assembled(
    graph: CostGraph,
    unary: list[FloatArray],
    tails: list[int],
    heads: list[int],
    pair: list[FloatArray],
    owners: list[int],
    usage: list[FloatArray],
) -> PairwiseModel:
    since, until, moments = _moments(graph, np.array(owners, dtype=np.int64))
    return PairwiseModel(
        starts=offsets(np.array([len(table) for table in unary], dtype=np.int64)),
        unary=_joined(unary),
        tails=np.array(tails, dtype=np.int64),
        heads=np.array(heads, dtype=np.int64),
        tables=offsets(np.array([len(table) for table in pair], dtype=np.int64)),
        pair=_joined(pair),
        first_term=np.searchsorted(owners, np.arange(len(unary) + 1)).astype(np.int64),
        since=since,
        until=until,
        usages=offsets(np.array([len(table) for table in usage], dtype=np.int64)),
        usage=_joined(usage),
        base=np.zeros(moments),
        constant=0.0,
    )


def _moments(graph: CostGraph, owners: IntArray) -> tuple[IntArray, IntArray, int]:
    """The first and last moments of each owner's memory, and the number of moments."""
    timeline = graph.timeline
    since = np.zeros_like(owners)
    until = np.ones_like(owners)
    if timeline is None:
        return since, until, 1
    moments = max(timeline.moments, 1)
    of_nodes = owners[owners < len(graph.nodes)]
    until[:] = moments
    since[: len(of_nodes)] = timeline.first[of_nodes]
    until[: len(of_nodes)] = timeline.last[of_nodes]
    return since, until, moments


def _joined(arrays: list[FloatArray]) -> FloatArray:
    return np.concatenate(arrays) if arrays else np.zeros(0)
