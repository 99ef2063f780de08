"""Sequential tree-reweighted message passing (TRW-S, Kolmogorov 2006) over shared tables.

Messages move cost between an edge and its ends. A sweep there and back raises the sum of the least
costs of all parts. Messages are in single precision: `message_bound.py` computes a valid bound for
any messages, so that rounding only weakens the bound.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.search.message_passing.network import Network

SingleArray = NDArray[np.float32]


class NetworkArrays(NamedTuple):
    """The edges of each node: node n's are edges[first[n]:first[n+1]]. The vector of node n starts
    at vectors[n], the table of edge e at tables[e], row by row of its tail's states.

    The messages of edge e to its ends start at at_tail[e] and at_head[e].
    """

    extents: IntArray
    vectors: IntArray
    tails: IntArray
    heads: IntArray
    tables: IntArray
    first: IntArray
    edges: IntArray
    at_tail: IntArray
    at_head: IntArray


class SingleMessages(NamedTuple):
    to_tail: SingleArray
    to_head: SingleArray


def links_of(network: Network) -> NetworkArrays:
    count = len(network.names)
    ends = np.concatenate([network.tails, network.heads])
    order = np.argsort(ends, kind="stable")
    place = np.zeros(len(network.definitions.definitions), dtype=np.int64)
    place[network.wanted()] = starts_of(network)[:-1]
    return NetworkArrays(
        extents=network.extents,
        vectors=place[network.vectors],
        tails=network.tails,
        heads=network.heads,
        tables=place[network.tables],
        first=np.searchsorted(ends[order], np.arange(count + 1)).astype(np.int64),
        edges=order % max(len(network.tails), 1),
        at_tail=offsets(network.extents[network.tails]),
        at_head=offsets(network.extents[network.heads]),
    )


def starts_of(network: Network) -> IntArray:
    """The start of each wanted vector and table in one array, and the end of the last."""
    shapes = network.definitions.shapes
    return offsets(np.array([math.prod(shapes[number]) for number in network.wanted()]))


def no_messages(links: NetworkArrays) -> SingleMessages:
    return SingleMessages(
        np.zeros(links.at_tail[-1], dtype=np.float32),
        np.zeros(links.at_head[-1], dtype=np.float32),
    )


def offsets(counts: IntArray) -> IntArray:
    """The starts of consecutive pieces, and the end of the last."""
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


_compile = njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})


@_compile
def _pass(given: SingleArray, rows: SingleArray, out: SingleArray) -> None:
    """out[t] = min over s of given[s] + rows[s, t], less the least: only differences matter."""
    count, columns = rows.shape
    for t in range(columns):
        out[t] = np.inf
    for s in range(count):
        x = given[s]
        row = rows[s]
        for t in range(columns):
            y = x + row[t]
            out[t] = y if y < out[t] else out[t]
    least = np.float32(np.inf)
    for t in range(columns):
        least = out[t] if out[t] < least else least
    for t in range(columns):
        out[t] -= least


@njit(cache=True, nogil=True)
def value_at(
    n: int,
    links: NetworkArrays,
    numbers: SingleArray,
    messages: SingleMessages,
    value: SingleArray,
) -> None:
    """Write the node's vector plus the messages of its edges to `value`."""
    k = links.extents[n]
    vector = numbers[links.vectors[n] : links.vectors[n] + k]
    for s in range(k):
        value[s] = vector[s]
    for i in range(links.first[n], links.first[n + 1]):
        e = links.edges[i]
        if links.tails[e] == n:
            come = messages.to_tail[links.at_tail[e] : links.at_tail[e] + k]
        else:
            come = messages.to_head[links.at_head[e] : links.at_head[e] + k]
        for s in range(k):
            value[s] += come[s]


@njit(cache=True, nogil=True)
def sweep(
    links: NetworkArrays, numbers: SingleArray, messages: SingleMessages, stop: IntArray
) -> None:
    """One sweep there and back over all nodes; stop[0] != 0 ends it at the next node."""
    nodes = links.extents.size
    turned = numbers.size // 2
    widest = 1
    for n in range(nodes):
        widest = max(widest, links.extents[n])
    value = np.empty(widest, dtype=np.float32)
    buffer = np.empty(widest, dtype=np.float32)
    for way in range(2):
        for turn in range(nodes):
            if stop[0] != 0:
                return
            n = turn if way == 0 else nodes - 1 - turn
            k = links.extents[n]
            forward = 0
            for i in range(links.first[n], links.first[n + 1]):
                forward += links.tails[links.edges[i]] == n
            backward = links.first[n + 1] - links.first[n] - forward
            if (forward if way == 0 else backward) == 0:
                continue
            value_at(n, links, numbers, messages, value)
            share = np.float32(1.0 / max(forward, backward))
            for i in range(links.first[n], links.first[n + 1]):
                e = links.edges[i]
                a, b = links.tails[e], links.heads[e]
                if (a == n) != (way == 0):
                    continue
                o = b if way == 0 else a
                ko = links.extents[o]
                if way == 0:
                    place = links.tables[e]
                    come = messages.to_tail[links.at_tail[e] : links.at_tail[e] + k]
                    go = messages.to_head[links.at_head[e] : links.at_head[e] + ko]
                else:
                    place = links.tables[e] + turned
                    come = messages.to_head[links.at_head[e] : links.at_head[e] + k]
                    go = messages.to_tail[links.at_tail[e] : links.at_tail[e] + ko]
                outgoing = buffer[:k]
                for s in range(k):
                    outgoing[s] = share * value[s] - come[s]
                _pass(outgoing, numbers[place : place + k * ko].reshape(k, ko), go)
