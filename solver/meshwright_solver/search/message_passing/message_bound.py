"""A lower bound from messages.

Messages are added to nodes and subtracted from edges, so that the cost of every choice stays equal.
Every node and every edge then costs at least its least entry. The bound is computed in double
precision and holds for any messages. First every node shares its value among the edges to earlier
nodes, as the backward sweep does: only then is the bound as tight as the sweep.
"""

from __future__ import annotations

import math
from concurrent.futures import Executor

import numpy as np

from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.search.message_passing.flat_tables import FlatTables
from meshwright_solver.search.message_passing.trws import (
    NetworkArrays,
    SingleArray,
    SingleMessages,
    value_at,
)

_ROUNDING = 1e-13  # chosen: of all terms; each is the sum of some ten doubles


def lower_bound(
    links: NetworkArrays, numbers: FlatTables, messages: SingleMessages, pool: Executor
) -> float:
    """The bound on every choice; inf where every choice is forbidden."""
    shared = _shared_out(links, numbers.single, messages)
    edges = np.zeros(links.tails.size)
    middle = links.tails.size // 2
    halves = [
        pool.submit(_edges, links, numbers.exact, messages.to_tail, shared, edges, *ends)
        for ends in ((0, middle), (middle, links.tails.size))
    ]
    nodes = _nodes(links, numbers.exact, messages.to_tail, shared)
    for half in halves:
        half.result()
    terms = [*nodes.tolist(), *edges.tolist()]
    if math.inf in terms:
        return math.inf
    return math.fsum(terms) - _ROUNDING * math.fsum(map(abs, terms))


@njit(cache=True, nogil=True)
def _shared_out(links: NetworkArrays, single: SingleArray, messages: SingleMessages) -> SingleArray:
    """The messages to heads, after every node has shared its value among the edges it heads."""
    shared = messages.to_head.copy()
    value = np.empty(links.extents.max() if links.extents.size else 1, dtype=np.float32)
    for n in range(links.extents.size):
        k = links.extents[n]
        backward = 0
        for i in range(links.first[n], links.first[n + 1]):
            backward += links.heads[links.edges[i]] == n
        if backward == 0:
            continue
        forward = links.first[n + 1] - links.first[n] - backward
        value_at(n, links, single, messages, value)
        share = np.float32(1.0 / max(forward, backward))
        for i in range(links.first[n], links.first[n + 1]):
            e = links.edges[i]
            if links.heads[e] == n:
                message = shared[links.at_head[e] : links.at_head[e] + k]
                for s in range(k):
                    message[s] -= share * value[s]
    return shared


@njit(cache=True, nogil=True)
def _nodes(
    links: NetworkArrays, exact: FloatArray, to_tail: SingleArray, to_head: SingleArray
) -> FloatArray:
    out = np.empty(links.extents.size)
    value = np.empty(links.extents.max() if links.extents.size else 1)
    for n in range(links.extents.size):
        k = links.extents[n]
        for s in range(k):
            value[s] = exact[links.vectors[n] + s]
        for i in range(links.first[n], links.first[n + 1]):
            e = links.edges[i]
            is_tail = links.tails[e] == n
            for s in range(k):
                if is_tail:
                    value[s] += to_tail[links.at_tail[e] + s]
                else:
                    value[s] += to_head[links.at_head[e] + s]
        out[n] = value[:k].min()
    return out


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _least_columns(rows: FloatArray, taken: SingleArray, out: FloatArray) -> None:
    """out[t] = min over s of rows[s, t] - taken[s]."""
    count, columns = rows.shape
    for t in range(columns):
        out[t] = np.inf
    for s in range(count):
        x = np.float64(taken[s])
        row = rows[s]
        for t in range(columns):
            y = row[t] - x
            out[t] = y if y < out[t] else out[t]


@njit(cache=True, nogil=True)
def _edges(
    links: NetworkArrays,
    exact: FloatArray,
    to_tail: SingleArray,
    to_head: SingleArray,
    out: FloatArray,
    start: int,
    stop: int,
) -> None:
    least = np.empty(links.extents.max() if links.extents.size else 1)
    for e in range(start, stop):
        a, b = links.extents[links.tails[e]], links.extents[links.heads[e]]
        rows = exact[links.tables[e] : links.tables[e] + a * b].reshape(a, b)
        taken = to_tail[links.at_tail[e] : links.at_tail[e] + a]
        _least_columns(rows, taken, least[:b])
        best = np.inf
        for t in range(b):
            x = least[t] - to_head[links.at_head[e] + t]
            best = x if x < best else best
        out[e] = best
