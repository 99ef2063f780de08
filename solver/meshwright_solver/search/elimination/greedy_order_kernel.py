"""The compiled greedy order of elimination: smallest resulting table first.

The rule is that of `greedy_order.py`, for graphs in which every node is eliminated separately:
projections are edges like any other, and no table is shared. The neighbour lists of all nodes lie
in one pool; a list that outgrows its place moves to the end of the pool.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.compilation import njit


@dataclass(frozen=True, slots=True)
class EliminationOrder:
    """The order of elimination; nodes of a single state, which are in no table, come first.

    scope[start[k] : start[k + 1]] are the neighbours over which step k leaves a table. entries: of
    that table, 1 where it has no axis.
    """

    nodes: IntArray
    start: IntArray
    scope: IntArray
    entries: IntArray


def order_of(
    extents: IntArray, tails: IntArray, heads: IntArray, max_entries: int
) -> EliminationOrder | None:
    """The order, None where it needs a table of more than `max_entries`."""
    count = len(extents)
    joins = (extents[tails] > 1) & (extents[heads] > 1)
    low, high = np.minimum(tails, heads)[joins], np.maximum(tails, heads)[joins]
    pairs = np.unique(low * count + high)
    low, high = pairs // count, pairs % count
    ends, others = np.concatenate([low, high]), np.concatenate([high, low])
    degrees = np.bincount(ends, minlength=count).astype(np.int64)
    around = others[np.argsort(ends, kind="stable")]
    nodes, lengths, scope, entries = _compiled_order(extents, degrees, around, max_entries)
    if len(nodes) < count:
        return None
    start = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(lengths, out=start[1:])
    return EliminationOrder(nodes, start, scope, entries)


@njit(nogil=True)
def _entries(
    node: int, extents: IntArray, pool: IntArray, at: IntArray, degrees: IntArray
) -> float:
    product = 1.0
    for place in range(at[node], at[node] + degrees[node]):
        product *= extents[pool[place]]
    return product


@njit(nogil=True)
def _grown(array: IntArray, size: int) -> IntArray:
    if size <= len(array):
        return array
    larger = np.empty(2 * size, dtype=np.int64)
    larger[: len(array)] = array
    return larger


def _order(
    extents: IntArray, degrees: IntArray, around: IntArray, max_entries: int
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Nodes, lengths of their scopes, scopes, entries; cut short before a table that is too
    large."""
    count = len(extents)
    at = np.zeros(count, dtype=np.int64)
    room = np.zeros(count, dtype=np.int64)
    size = 0
    for node in range(count):
        at[node] = size
        room[node] = degrees[node] + 4
        size += room[node]
    pool = np.empty(2 * size + 16, dtype=np.int64)
    read = 0
    for node in range(count):
        for k in range(degrees[node]):
            pool[at[node] + k] = around[read]
            read += 1
    price = np.empty(count)
    gone = np.zeros(count, dtype=np.bool_)
    heap = [(0.0, 0.0, 0) for _ in range(0)]
    for node in range(count):
        price[node] = 0.0 if extents[node] == 1 else _entries(node, extents, pool, at, degrees)
        heap.append((price[node], price[node] * extents[node], node))
    heapq.heapify(heap)
    nodes = np.empty(count, dtype=np.int64)
    lengths = np.empty(count, dtype=np.int64)
    entries = np.empty(count, dtype=np.int64)
    scope = np.empty(8 * count + 16, dtype=np.int64)
    done = used = 0
    while len(heap) > 0:
        heap_price, _, node = heapq.heappop(heap)
        if gone[node] or heap_price != price[node]:
            continue
        if heap_price > max_entries:
            break
        gone[node] = True
        degree = degrees[node]
        nodes[done] = node
        lengths[done] = degree
        entries[done] = max(int(heap_price), 1)
        done += 1
        scope = _grown(scope, used + degree)
        scope[used : used + degree] = pool[at[node] : at[node] + degree]
        around_it = scope[used : used + degree]
        used += degree
        for first in around_it:
            start = at[first]
            for place in range(start, start + degrees[first]):
                if pool[place] == node:
                    degrees[first] -= 1
                    pool[place] = pool[start + degrees[first]]
                    break
            # add the missing edges to the other neighbours of the node
            needed = degrees[first] + degree
            if needed > room[first]:
                pool = _grown(pool, size + 2 * needed)
                pool[size : size + degrees[first]] = pool[start : start + degrees[first]]
                at[first], room[first] = size, 2 * needed
                size += 2 * needed
                start = at[first]
            known = degrees[first]
            for second in around_it:
                if second == first:
                    continue
                is_known = False
                for place in range(start, start + known):
                    if pool[place] == second:
                        is_known = True
                        break
                if not is_known:
                    pool[start + degrees[first]] = second
                    degrees[first] += 1
        for first in around_it:
            now = _entries(first, extents, pool, at, degrees)
            if now != price[first]:
                price[first] = now
                heapq.heappush(heap, (now, now * extents[first], first))
    return nodes[:done], lengths[:done], scope[:used], entries[:done]


_compiled_order = cast(
    Callable[[IntArray, IntArray, IntArray, int], tuple[IntArray, IntArray, IntArray, IntArray]],
    njit(cache=True, nogil=True)(_order),
)
