"""Sequential tree-reweighted message passing (TRW-S, Kolmogorov 2006).

Messages move cost between an edge and its ends without a change in the cost of any choice. A sweep
there and back over the nodes in order never lowers the sum of the least costs of monotonic chains,
which is a lower bound on every choice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.search.lagrangian.model import PairwiseModel, offsets


class EdgeMessages(NamedTuple):
    """to_tail[at_tail[e]:], to_head[at_head[e]:]: the messages of edge e to its ends."""

    to_tail: FloatArray
    at_tail: IntArray
    to_head: FloatArray
    at_head: IntArray


def no_messages(model: PairwiseModel) -> EdgeMessages:
    at_tail = offsets(model.extents[model.tails])
    at_head = offsets(model.extents[model.heads])
    return EdgeMessages(np.zeros(at_tail[-1]), at_tail, np.zeros(at_head[-1]), at_head)


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _send(
    value: FloatArray,
    share: float,
    own: int,
    k: int,
    other: int,
    ko: int,
    table: int,
    is_tail: bool,
    pair: FloatArray,
    inbox: FloatArray,
    outbox: FloatArray,
) -> float:
    """The message along one edge: outbox[t] = min over s of share*value[s] - inbox[s] + pair[s, t].

    The message is normalised to least 0; the function returns the subtracted value.
    """
    # views, so that no index can be negative: only then do the loops vectorise
    come = inbox[own : own + k]
    go = outbox[other : other + ko]
    cells = pair[table : table + k * ko]
    for t in range(ko):
        go[t] = np.inf
    if is_tail:
        rows = cells.reshape(k, ko)
        for s in range(k):
            x = share * value[s] - come[s]
            row = rows[s]
            for t in range(ko):
                y = x + row[t]
                go[t] = y if y < go[t] else go[t]
    else:
        for s in range(k):
            come[s] = share * value[s] - come[s]
        columns = cells.reshape(ko, k)
        for t in range(ko):
            row = columns[t]
            y = np.inf
            for s in range(k):
                x = come[s] + row[s]
                y = x if x < y else y
            go[t] = y
        for s in range(k):
            come[s] = share * value[s] - come[s]
    least = np.inf
    for t in range(ko):
        least = go[t] if go[t] < least else least
    for t in range(ko):
        go[t] -= least
    return least


@njit(cache=True, nogil=True)
def sweep(
    model: PairwiseModel,
    unary: FloatArray,
    first: IntArray,
    edges: IntArray,
    messages: EdgeMessages,
    states: IntArray,
    stop: IntArray,
) -> float:
    """One sweep there and back; its bound. The forward pass decodes a choice into `states`.

    stop[0] != 0 ends it at the next node, with the bound -inf.
    """
    starts, tails, heads, tables, pair = (
        model.starts, model.tails, model.heads, model.tables, model.pair
    )  # fmt: skip
    to_tail, at_tail, to_head, at_head = messages
    nodes = starts.size - 1
    widest = 1
    for n in range(nodes):
        widest = max(widest, starts[n + 1] - starts[n])
    value = np.empty(widest)
    decode = np.empty(widest)
    bound = 0.0
    for way in range(2):
        for turn in range(nodes):
            n = turn if way == 0 else nodes - 1 - turn
            if stop[0] != 0:
                return -np.inf
            start = starts[n]
            k = starts[n + 1] - start
            if k == 1:
                states[n] = 0
                continue
            forward = 0
            backward = 0
            for s in range(k):
                value[s] = unary[start + s]
                decode[s] = unary[start + s]
            for i in range(first[n], first[n + 1]):
                e = edges[i]
                if tails[e] == n:
                    forward += 1
                    for s in range(k):
                        value[s] += to_tail[at_tail[e] + s]
                        decode[s] += to_tail[at_tail[e] + s]
                else:
                    backward += 1
                    for s in range(k):
                        value[s] += to_head[at_head[e] + s]
                    if way == 0:
                        place = tables[e] + states[tails[e]] * k
                        for s in range(k):
                            decode[s] += pair[place + s]
            if way == 0:
                best = 0
                for s in range(1, k):
                    if decode[s] < decode[best]:
                        best = s
                states[n] = best
            else:
                least = value[0]
                for s in range(1, k):
                    least = min(least, value[s])
                bound += least
                for s in range(k):
                    value[s] -= least
            share = 1.0 / max(forward, backward, 1)
            for i in range(first[n], first[n + 1]):
                e = edges[i]
                if (tails[e] == n) != (way == 0):
                    continue
                if way == 0:
                    o = heads[e]
                    ko = starts[o + 1] - starts[o]
                    _send(
                        value, share, at_tail[e], k, at_head[e], ko, tables[e], True, pair,
                        to_tail, to_head,
                    )  # fmt: skip
                else:
                    o = tails[e]
                    ko = starts[o + 1] - starts[o]
                    bound += _send(
                        value, share, at_head[e], k, at_tail[e], ko, tables[e], False, pair,
                        to_head, to_tail,
                    )  # fmt: skip
    return bound
