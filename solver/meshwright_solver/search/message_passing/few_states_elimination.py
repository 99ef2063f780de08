"""The best choice among a few states of every node, by elimination of nodes with few neighbours.

A node with at most two neighbours leaves a vector or a table over these, the minimum over its
states, and the states that attain it. If every remaining node has more neighbours, one of them
keeps its former state. The result is then the best choice that agrees there, no worse than the
former choice. Graphs of treewidth two, which forks and joins make, do not need this.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.search.message_passing.trws import NetworkArrays


class HalfEdgeGraph(NamedTuple):
    """The remaining graph. Edge e has two halves: 2e at its tail, 2e + 1 at its head. The halves of
    a node are a list, at[node] its first. tables[e] has the tail's states first."""

    counts: IntArray
    vectors: FloatArray
    tables: FloatArray
    others: IntArray
    at: IntArray
    after: IntArray
    before: IntArray
    degrees: IntArray


@njit(cache=True, nogil=True)
def best_of_few(
    links: NetworkArrays, exact: FloatArray, few: IntArray, order: IntArray
) -> tuple[IntArray, bool]:
    """The best choice among the states in `few`, of which the first is the former state; and
    whether it is the best of all these: no node had to keep its state.

    order: all nodes; earlier ones keep their former state first.
    """
    nodes = links.extents.size
    graph = _graph(links, exact, few)
    most = few.shape[1]
    waiting = np.empty(3 * nodes + 2 * links.tails.size, dtype=np.int64)
    queued = 0
    for n in range(nodes - 1, -1, -1):
        if graph.degrees[n] <= 2:
            waiting[queued] = n
            queued += 1
    turns = np.empty(nodes, dtype=np.int64)
    sides = np.full((nodes, 2), -1, dtype=np.int64)
    choices = np.zeros((nodes, most, most), dtype=np.uint8)
    is_gone = np.zeros(nodes, dtype=np.bool_)
    done = 0
    next_kept = 0
    while done < nodes:
        keeps = queued == 0
        if keeps:
            while is_gone[order[next_kept]]:
                next_kept += 1
            n = order[next_kept]
            next_kept += 1
        else:
            queued -= 1
            n = waiting[queued]
            if is_gone[n] or graph.degrees[n] > 2:
                continue
        is_gone[n] = True
        turns[done] = n
        done += 1
        if keeps:
            half = graph.at[n]
            while half >= 0:
                o = graph.others[half]
                _impose(graph, half)
                _detach(graph, half ^ 1, o)
                if graph.degrees[o] <= 2:
                    waiting[queued] = o
                    queued += 1
                half = graph.after[half]
            continue
        _eliminate(graph, n, sides, choices)
        for side in range(2):
            o = sides[n, side]
            if o >= 0 and graph.degrees[o] <= 2:
                waiting[queued] = o
                queued += 1
    states = np.zeros(nodes, dtype=np.int64)
    for i in range(nodes - 1, -1, -1):
        n = turns[i]
        one = states[sides[n, 0]] if sides[n, 0] >= 0 else 0
        other = states[sides[n, 1]] if sides[n, 1] >= 0 else 0
        states[n] = choices[n, one, other]
    for n in range(nodes):
        states[n] = few[n, states[n]]
    return states, next_kept == 0


@njit(cache=True, nogil=True)
def _graph(links: NetworkArrays, exact: FloatArray, few: IntArray) -> HalfEdgeGraph:
    nodes, most = few.shape
    edges = links.tails.size
    counts = np.zeros(nodes, dtype=np.int64)
    vectors = np.full((nodes, most), np.inf)
    for n in range(nodes):
        while counts[n] < most and few[n, counts[n]] >= 0:
            vectors[n, counts[n]] = exact[links.vectors[n] + few[n, counts[n]]]
            counts[n] += 1
    tables = np.empty((edges, most, most))
    none = np.full(2 * edges, -1, dtype=np.int64)
    at = np.full(nodes, -1, dtype=np.int64)
    degrees = np.zeros(nodes, dtype=np.int64)
    graph = HalfEdgeGraph(counts, vectors, tables, none.copy(), at, none.copy(), none, degrees)
    for e in range(edges):
        a, b = links.tails[e], links.heads[e]
        width = links.extents[b]
        for s in range(counts[a]):
            row = links.tables[e] + few[a, s] * width
            for t in range(counts[b]):
                tables[e, s, t] = exact[row + few[b, t]]
        _add(graph, e, a, b)
    return graph


@njit(cache=True, nogil=True)
def _add(graph: HalfEdgeGraph, e: int, tail: int, head: int) -> None:
    """Add the edge, or add its table to an edge between the same nodes."""
    fewer = tail if graph.degrees[tail] <= graph.degrees[head] else head
    further = head if fewer == tail else tail
    half = graph.at[fewer]
    while half >= 0 and graph.others[half] != further:
        half = graph.after[half]
    if half < 0:
        _attach(graph, 2 * e, tail, head)
        _attach(graph, 2 * e + 1, head, tail)
        return
    f = half // 2
    is_same = graph.others[2 * f] == head
    for s in range(graph.counts[tail]):
        for t in range(graph.counts[head]):
            if is_same:
                graph.tables[f, s, t] += graph.tables[e, s, t]
            else:
                graph.tables[f, t, s] += graph.tables[e, s, t]


@njit(cache=True, nogil=True)
def _attach(graph: HalfEdgeGraph, half: int, node: int, other: int) -> None:
    first = graph.at[node]
    graph.others[half] = other
    graph.before[half] = -1
    graph.after[half] = first
    if first >= 0:
        graph.before[first] = half
    graph.at[node] = half
    graph.degrees[node] += 1


@njit(cache=True, nogil=True)
def _detach(graph: HalfEdgeGraph, half: int, node: int) -> None:
    before, after = graph.before[half], graph.after[half]
    if before >= 0:
        graph.after[before] = after
    else:
        graph.at[node] = after
    if after >= 0:
        graph.before[after] = before
    graph.degrees[node] -= 1


@njit(cache=True, nogil=True)
def _impose(graph: HalfEdgeGraph, half: int) -> None:
    """Add to the other end of a half the cost of the node's first state."""
    o = graph.others[half]
    table = graph.tables[half // 2]
    for t in range(graph.counts[o]):
        graph.vectors[o, t] += table[0, t] if half % 2 == 0 else table[t, 0]


@njit(cache=True, nogil=True)
def _eliminate(graph: HalfEdgeGraph, n: int, sides: IntArray, choices: NDArray[np.uint8]) -> None:
    """Minimise over the node's states. sides[n]: its neighbours, -1 where there are fewer."""
    most = graph.vectors.shape[1]
    count = graph.counts[n]
    rows = np.zeros((2, most, most))  # of the node's states, then of a neighbour's
    widths = np.ones(2, dtype=np.int64)
    half = graph.at[n]
    edge = half // 2
    side = 0
    while half >= 0:
        o = graph.others[half]
        sides[n, side] = o
        widths[side] = graph.counts[o]
        table = graph.tables[half // 2]
        for s in range(count):
            for t in range(widths[side]):
                rows[side, s, t] = table[s, t] if half % 2 == 0 else table[t, s]
        _detach(graph, half ^ 1, o)
        side += 1
        half = graph.after[half]
    least = np.full((most, most), np.inf)
    for i in range(widths[0]):
        for s in range(count):
            x = graph.vectors[n, s] + rows[0, s, i]
            for j in range(widths[1]):
                y = x + rows[1, s, j]
                if y < least[i, j]:
                    least[i, j] = y
                    choices[n, i, j] = s
    if side == 1:
        for i in range(widths[0]):
            graph.vectors[sides[n, 0], i] += least[i, 0]
    elif side == 2:
        for i in range(widths[0]):
            for j in range(widths[1]):
                graph.tables[edge, i, j] = least[i, j]
        _add(graph, edge, sides[n, 0], sides[n, 1])
