"""Which states of a node are worth a closer look, by what messages say of them."""

from __future__ import annotations

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.search.message_passing.trws import (
    NetworkArrays,
    SingleArray,
    SingleMessages,
    value_at,
)


@njit(cache=True, nogil=True)
def few_states(
    links: NetworkArrays, single: SingleArray, messages: SingleMessages, given: IntArray, most: int
) -> IntArray:
    """(nodes, most): states of each node, -1 after the last: those given, (n, nodes), in their
    order, then those of least value under the messages."""
    nodes = links.extents.size
    found = np.full((nodes, most), -1, dtype=np.int64)
    widest = 1
    for n in range(nodes):
        widest = max(widest, links.extents[n])
    value = np.empty(widest, dtype=np.float32)
    for n in range(nodes):
        k = links.extents[n]
        value_at(n, links, single, messages, value)
        count = 0
        for i in range(given.shape[0]):
            s = given[i, n]
            if value[s] < np.inf and count < most:
                found[n, count] = s
                value[s] = np.inf
                count += 1
        while count < min(most, k):
            best = 0
            for s in range(1, k):
                if value[s] < value[best]:
                    best = s
            found[n, count] = best
            value[best] = np.inf
            count += 1
    return found


@njit(cache=True, nogil=True)
def decoded(links: NetworkArrays, single: SingleArray, messages: SingleMessages) -> IntArray:
    """States node by node: best with those before it, and with what messages say of the rest."""
    nodes = links.extents.size
    states = np.zeros(nodes, dtype=np.int64)
    widest = 1
    for n in range(nodes):
        widest = max(widest, links.extents[n])
    value = np.empty(widest, dtype=np.float32)
    for n in range(nodes):
        k = links.extents[n]
        for s in range(k):
            value[s] = single[links.vectors[n] + s]
        for i in range(links.first[n], links.first[n + 1]):
            e = links.edges[i]
            if links.tails[e] == n:
                for s in range(k):
                    value[s] += messages.to_tail[links.at_tail[e] + s]
            else:
                row = links.tables[e] + states[links.tails[e]] * k
                for s in range(k):
                    value[s] += single[row + s]
        best = 0
        for s in range(1, k):
            if value[s] < value[best]:
                best = s
        states[n] = best
    return states
