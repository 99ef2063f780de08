"""The elimination plan of a block, with all other nodes fixed.

The node with the smallest resulting table comes first. If every table would have more than
`most_entries`, a node of many neighbours is fixed as well: one elimination solves the remaining
block exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.search.lagrangian.model import PairwiseModel

WordArray = NDArray[np.uint64]

_WIDEST = 20  # chosen: neighbours at an elimination; each has two states or more


class BlockPlan(NamedTuple):
    """Steps in order: nodes[p] is eliminated and leaves messages[p]:messages[p+1], a table over its
    scope scopes[first_scope[p]:first_scope[p+1]], row-major, last steps first. It sums the factors
    first_factor[p]:first_factor[p+1]. Factor f starts at places[f] of block_solver.held_tables,
    where the states of the step's node are contiguous; strides[scope_strides[f] + d] is its stride
    along the scope's node d, 0 where the factor does not read that node.
    """

    nodes: IntArray
    first_scope: IntArray
    scopes: IntArray
    first_factor: IntArray
    places: IntArray
    scope_strides: IntArray
    strides: IntArray
    messages: IntArray


@njit(cache=True, nogil=True)
def _set_bit(row: WordArray, bit: int) -> None:
    row[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)


@njit(cache=True, nogil=True)
def _clear_bit(row: WordArray, bit: int) -> None:
    row[bit >> 6] &= ~(np.uint64(1) << np.uint64(bit & 63))


@njit(cache=True, nogil=True)
def _members(row: WordArray, out: IntArray) -> int:
    """Write the set bits of `row` to `out`, as many as fit; their total number."""
    count = 0
    for w in range(row.size):
        x = row[w]
        bit = w << 6
        while x != 0:
            low = x & (~x + np.uint64(1))
            place = 0
            while (low >> np.uint64(place)) & np.uint64(255) == 0:
                place += 8
            while (low >> np.uint64(place)) & np.uint64(1) == 0:
                place += 1
            if count < out.size:
                out[count] = bit + place
            count += 1
            x ^= low
    return count


@njit(cache=True, nogil=True)
def _bucket(row: WordArray, extents: IntArray, members: IntArray, most_entries: float) -> int:
    """A quarter of a doubling of the table's entries; -1 if it has too many."""
    count = _members(row, members)
    if count > _WIDEST:
        return -1
    entries = 1.0
    for j in range(count):
        entries *= extents[members[j]]
    if entries > most_entries:
        return -1
    return int(4 * np.log2(entries))


@njit(cache=True, nogil=True)
def _ordered(
    extents: IntArray, rows: WordArray, weights: FloatArray, most_entries: float, order: IntArray
) -> int:
    """The elimination order of local nodes; nodes left out are to be fixed. Clears `rows`."""
    count = extents.size
    buckets = 4 * 64
    heads = np.full(buckets, -1, np.int64)
    capacity = (_WIDEST + 2) * count + 64
    following = np.empty(capacity, np.int64)
    entry_node = np.empty(capacity, np.int64)
    used = 0
    current = np.full(count, -1, np.int64)
    gone = np.zeros(count, np.bool_)
    members = np.empty(max(count, _WIDEST), np.int64)
    few = np.empty(_WIDEST + 1, np.int64)
    for v in range(count):
        b = _bucket(rows[v], extents, few, most_entries)
        current[v] = b
        if b >= 0:
            entry_node[used] = v
            following[used] = heads[b]
            heads[b] = used
            used += 1
    done, remaining = 0, count
    while remaining > 0:
        v = -1
        for b in range(buckets):
            while heads[b] >= 0:
                entry = heads[b]
                heads[b] = following[entry]
                u = entry_node[entry]
                if not gone[u] and current[u] == b:
                    v = u
                    break
            if v >= 0:
                break
        eliminated = v >= 0
        if not eliminated:
            most = -1.0
            for u in range(count):
                if not gone[u]:
                    x = _members(rows[u], few) * weights[u]
                    if x > most:
                        most = x
                        v = u
        gone[v] = True
        remaining -= 1
        around = _members(rows[v], members)
        if eliminated:
            order[done] = v
            done += 1
        for j in range(around):
            u = members[j]
            if eliminated:
                for w in range(rows.shape[1]):
                    rows[u, w] |= rows[v, w]
                _clear_bit(rows[u], u)
            _clear_bit(rows[u], v)
        for j in range(around):
            u = members[j]
            b = _bucket(rows[u], extents, few, most_entries)
            if b != current[u] or b >= 0:
                current[u] = b
                if b >= 0 and used < capacity:
                    entry_node[used] = u
                    following[used] = heads[b]
                    heads[b] = used
                    used += 1
        for w in range(rows.shape[1]):
            rows[v, w] = np.uint64(0)
    return done


@njit(cache=True, nogil=True)
def plan_block(
    model: PairwiseModel,
    first: IntArray,
    edges: IntArray,
    block: IntArray,
    weights: FloatArray,
    most_entries: float,
) -> BlockPlan:
    """The plan of a block. weights: by node of the block; heavier ones are fixed first."""
    starts, tails, heads = model.starts, model.tails, model.heads
    nodes = starts.size - 1
    local = np.full(nodes, -1, np.int64)
    for j in range(block.size):
        local[block[j]] = j
    words = (block.size + 63) >> 6
    rows = np.zeros((block.size, words), np.uint64)
    extents = np.empty(block.size, np.int64)
    for j in range(block.size):
        n = block[j]
        extents[j] = starts[n + 1] - starts[n]
        for i in range(first[n], first[n + 1]):
            e = edges[i]
            o = local[heads[e] if tails[e] == n else tails[e]]
            if o >= 0:
                _set_bit(rows[j], o)
    order = np.empty(block.size, np.int64)
    count = _ordered(extents, rows, weights, most_entries, order)
    eliminated = np.empty(count, np.int64)
    for p in range(count):
        eliminated[p] = block[order[p]]
    return _plan(model, first, edges, eliminated)


@njit(cache=True, nogil=True)
def _plan(model: PairwiseModel, first: IntArray, edges: IntArray, nodes: IntArray) -> BlockPlan:
    starts, tails, heads, tables = model.starts, model.tails, model.heads, model.tables
    count = nodes.size
    position = np.full(starts.size - 1, -1, np.int64)
    for p in range(count):
        position[nodes[p]] = p
    first_scope = np.zeros(count + 1, np.int64)
    messages = np.zeros(count + 1, np.int64)
    scopes = np.empty(8 * count + 64, np.int64)
    # messages that a step reads, as linked lists
    inbox = np.full(count, -1, np.int64)
    following = np.full(count, -1, np.int64)
    factors = 0
    strides_count = 0
    mark = np.full(count, -1, np.int64)
    for p in range(count):
        n = nodes[p]
        start = first_scope[p]
        size = 0
        own_factors = 0
        if scopes.size < start + count:
            # at most count - p more can come, and this is rare
            bigger = np.empty(max(2 * scopes.size, start + count), np.int64)
            for i in range(start):
                bigger[i] = scopes[i]
            scopes = bigger
        for i in range(first[n], first[n + 1]):
            e = edges[i]
            q = position[heads[e] if tails[e] == n else tails[e]]
            if q > p:
                own_factors += 1
                if mark[q] != p:
                    mark[q] = p
                    scopes[start + size] = q
                    size += 1
        m = inbox[p]
        while m >= 0:
            own_factors += 1
            for i in range(first_scope[m], first_scope[m + 1]):
                q = scopes[i]
                if q != p and mark[q] != p:
                    mark[q] = p
                    scopes[start + size] = q
                    size += 1
            m = following[m]
        for i in range(start + 1, start + size):
            x = scopes[i]
            j = i
            while j > start and scopes[j - 1] < x:
                scopes[j] = scopes[j - 1]
                j -= 1
            scopes[j] = x
        first_scope[p + 1] = start + size
        entries = 1
        for i in range(start, start + size):
            o = nodes[scopes[i]]
            entries *= starts[o + 1] - starts[o]
        messages[p + 1] = messages[p] + entries
        if size > 0:
            q = scopes[start + size - 1]
            following[p] = inbox[q]
            inbox[q] = p
        factors += own_factors
        strides_count += own_factors * size
    first_factor = np.zeros(count + 1, np.int64)
    places = np.empty(factors, np.int64)
    scope_strides = np.empty(factors, np.int64)
    strides = np.zeros(strides_count, np.int64)
    message_base = 2 * tables[-1]
    f = 0
    z = 0
    digit = np.full(count, -1, np.int64)
    for p in range(count):
        n = nodes[p]
        size = first_scope[p + 1] - first_scope[p]
        for d in range(size):
            digit[scopes[first_scope[p] + d]] = d
        k = starts[n + 1] - starts[n]
        for i in range(first[n], first[n + 1]):
            e = edges[i]
            is_tail = tails[e] == n
            o = heads[e] if is_tail else tails[e]
            q = position[o]
            if q > p:
                places[f] = tables[e] + tables[-1] if is_tail else tables[e]
                strides[z + digit[q]] = k
                scope_strides[f] = z
                z += size
                f += 1
        m = inbox[p]
        while m >= 0:
            places[f] = message_base + messages[m]
            scope_strides[f] = z
            stride = 1
            for i in range(first_scope[m + 1] - 1, first_scope[m] - 1, -1):
                q = scopes[i]
                if q != p:
                    strides[z + digit[q]] = stride
                o = nodes[q]
                stride *= starts[o + 1] - starts[o]
            z += size
            f += 1
            m = following[m]
        first_factor[p + 1] = f
    return BlockPlan(
        nodes, first_scope, scopes, first_factor, places, scope_strides, strides, messages
    )
