"""State selection: the few states of each node that messages rate best."""

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
    """States of each node, shape (nodes, most), -1 after the last. First those of the choices
    `given`, shape (n, nodes), in their order, then those of least value under the messages."""
    nodes = links.extents.size
    selected = np.full((nodes, most), -1, dtype=np.int64)
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
                selected[n, count] = s
                value[s] = np.inf
                count += 1
        while count < min(most, k):
            best = 0
            for s in range(1, k):
                if value[s] < value[best]:
                    best = s
            selected[n, count] = best
            value[best] = np.inf
            count += 1
    return selected


@njit(cache=True, nogil=True)
def decoded(links: NetworkArrays, single: SingleArray, messages: SingleMessages) -> IntArray:
    """Decode states node by node: the best for the earlier nodes' states and the messages."""
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
