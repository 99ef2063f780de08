"""The nodes and edges of a graph of layouts, enumerated by compiled loops.

`list_layouts` lists the layouts of some states. `edges` lists the edges between them and the rests,
which are numbered behind the layouts. `meshwright_solver.layouts.layout_graph` explains both. A
layout is also a key: of every axis a digit (its place, its rank), the first axis the most
significant. One sweep counts the edges and a second one writes them, each at its target's next free
place. Within a target they lie in the order of the sweep, group by group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.layouts.states import PARTIAL, REPLICATED

Ints = NDArray[np.int32]
Edges = tuple[Ints, Ints, Ints]

# one price for each kind of move and group of axes; these are the offsets of the kinds in a group
PLACED = 0  # the prices of the groups stand behind it, KINDS each
KINDS = 9
_GATHER, _UNEVEN, _EXCHANGE, _REDUCE, _SCATTER = range(1, 6)
_SLICE, _MASK, _PERMUTE, _ARRIVE = range(6, KINDS + 1)

_MOST_AT_ONCE = 1 << 20  # chosen: orders of states in one array, 8 MiB
_NOWHERE = 2  # the place of an axis in a rest, beyond the slots
_compile = njit(cache=True, nogil=True)


def list_layouts(states: IntArray, slots: int, orders: IntArray) -> tuple[IntArray, IntArray]:
    """State and ranks of every layout: the states in every order of their axes.

    orders: (permutations, axes), the positions of the axes in each.
    """
    axes = states.shape[1]
    weights = (axes + 1) ** np.arange(axes - 1, -1, -1, dtype=np.int64)
    before = orders[:, None, :] < orders[:, :, None]
    of_state, keys = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    step = max(1, _MOST_AT_ONCE // len(orders))
    for first in range(0, len(states), step):
        some = states[first : first + step]
        together = (some[:, None, :] == some[:, :, None]) & (some < slots)[:, :, None]
        key = np.zeros((len(some), len(orders)), dtype=np.int64)
        for axis, weight in enumerate(weights.tolist()):
            ranks = together[:, axis].astype(np.int64) @ before[:, axis].T.astype(np.int64)
            key += weight * ranks
        key.sort(axis=1)
        is_new = np.ones(key.shape, dtype=np.bool_)
        is_new[:, 1:] = key[:, 1:] != key[:, :-1]
        of_state.append(first + np.nonzero(is_new)[0])
        keys.append(key[is_new])
    return np.concatenate(of_state), np.concatenate(keys)[:, None] // weights % (axes + 1)


@njit(nogil=True)
def _distinct(values: IntArray) -> IntArray:
    """The different values in order, by merges: `np.unique` takes seconds to compile."""
    count = len(values)
    ordered, merged = values.copy(), np.empty(count, dtype=np.int64)
    width = 1
    while width < count:
        for low in range(0, count, 2 * width):
            middle, high = min(low + width, count), min(low + 2 * width, count)
            i, j = low, middle
            for k in range(low, high):
                if i < middle and (j >= high or ordered[i] <= ordered[j]):
                    merged[k] = ordered[i]
                    i += 1
                else:
                    merged[k] = ordered[j]
                    j += 1
        ordered, merged = merged, ordered
        width *= 2
    distinct = 0
    for k in range(count):
        if k == 0 or ordered[k] != ordered[k - 1]:
            merged[distinct] = ordered[k]
            distinct += 1
    return merged[:distinct]


@njit(nogil=True)
def _place_of(key: int, keys: IntArray) -> int:
    """The first place of sorted keys with at least this key."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True)
def _put(
    writes: bool,
    cursor: IntArray,
    edges: Edges,
    source: int,
    target: int,
    price: int,
    payload: int,
) -> None:
    place = cursor[target]
    cursor[target] = place + 1
    if writes:
        edges[0][place] = source
        edges[1][place] = price
        edges[2][place] = payload


@njit(nogil=True)
def _find(keys: IntArray, order: IntArray, key: int) -> int:
    at = _place_of(key, keys)
    if at < len(keys) and keys[at] == key:
        return int(order[at])
    return -1


def _sweep(
    places: IntArray,
    ranks: IntArray,
    slots: int,
    groups: IntArray,
    kind: IntArray,
    by_kind: IntArray,
    strides: IntArray,
    weights: IntArray,
    keys: IntArray,
    order: IntArray,
    writes: bool,
    cursor: IntArray,
    edges: Edges,
) -> int:
    """Count or write all edges; returns the number of nodes.

    groups: as sets of bits, 1 << axis. kind: the permute class of a layout, -1 where nothing
    permutes. by_kind: layouts in the order of their kinds. keys: layouts as numbers, in which an
    axis has these weights. order: layouts by key.
    """
    count, axes = places.shape
    digit = max(axes, 1)
    in_order = keys[order]
    nodes = count
    fastest = np.empty(count, dtype=np.int64)
    used = np.empty(count, dtype=np.int64)
    rest = np.empty(count, dtype=np.int64)
    for g in range(len(groups)):
        bits = groups[g]
        first_price = g * KINDS
        nowhere = 0
        to_whole = 0
        to_partial = 0
        for a in range(axes):
            if bits >> a & 1:
                nowhere += (slots + _NOWHERE) * digit * weights[a]
                to_whole += (slots + REPLICATED) * digit * weights[a]
                to_partial += (slots + PARTIAL) * digit * weights[a]
        rows = 0
        for r in range(count):
            on_slots = True
            cuts = 0
            digits = 0
            for a in range(axes):
                if bits >> a & 1:
                    digits += (places[r, a] * digit + ranks[r, a]) * weights[a]
                    if places[r, a] < slots:
                        cuts |= 1 << places[r, a]
                    else:
                        on_slots = False
            if on_slots and _is_free(places, ranks, slots, bits, r):
                fastest[rows] = r
                used[rows] = cuts
                rest[rows] = keys[r] - digits + nowhere
                rows += 1
        known = _distinct(rest[:rows])
        anywhere = nodes
        nodes += len(known)
        for i in range(rows):
            r = fastest[i]
            gathered = _find(in_order, order, rest[i] - nowhere + to_whole)
            if gathered >= 0:
                _put(writes, cursor, edges, r, gathered, first_price + _GATHER, gathered)
            rest[i] = _place_of(rest[i], known)
            _put(writes, cursor, edges, anywhere + rest[i], r, PLACED, r)
            _put(writes, cursor, edges, r, anywhere + rest[i], first_price + _UNEVEN, r)
        avoiding = np.empty(len(known), dtype=np.int64)
        for cuts in range(1 << slots):
            avoiding[:] = -1
            is_used = False
            for i in range(rows):
                if used[i] == cuts:
                    avoiding[rest[i]] = 0
                    is_used = True
            if not is_used:
                continue
            for k in range(len(known)):
                if avoiding[k] == 0:
                    avoiding[k] = nodes
                    nodes += 1
            for i in range(rows):
                r, node = fastest[i], avoiding[rest[i]]
                if used[i] == cuts:
                    _put(writes, cursor, edges, r, node, first_price + _EXCHANGE, r)
                elif used[i] & cuts == 0 and node >= 0:
                    _put(writes, cursor, edges, node, r, first_price + _ARRIVE, r)
        for offset in (PARTIAL, REPLICATED):
            for r in range(count):
                digits = 0
                has_offset = low = True
                for a in range(axes):
                    if bits >> a & 1:
                        digits += (places[r, a] * digit + ranks[r, a]) * weights[a]
                        has_offset &= places[r, a] == slots + offset
                        low &= places[r, a] <= slots + REPLICATED
                key = keys[r] - digits
                if has_offset:
                    at = _place_of(key + nowhere, known)
                    if at < len(known) and known[at] == key + nowhere:
                        price = first_price + (_SCATTER if offset == PARTIAL else _SLICE)
                        _put(writes, cursor, edges, r, anywhere + at, price, r)
                if offset == PARTIAL and has_offset:
                    reduced = _find(in_order, order, key + to_whole)
                    if reduced >= 0:
                        _put(writes, cursor, edges, r, reduced, first_price + _REDUCE, r)
                if offset == REPLICATED and low and _is_free(places, ranks, slots, bits, r):
                    masked = _find(in_order, order, key + to_partial)
                    if masked >= 0:
                        _put(writes, cursor, edges, r, masked, first_price + _MASK, r)
    _permutes(places, groups, kind, by_kind, strides, writes, cursor, edges)
    return int(nodes)


@njit(nogil=True)
def _is_free(places: IntArray, ranks: IntArray, slots: int, bits: int, r: int) -> bool:
    """Whether no other axis lies behind those of a group."""
    axes = places.shape[1]
    for a in range(axes):
        if bits >> a & 1 and places[r, a] < slots:
            for b in range(axes):
                if not bits >> b & 1 and places[r, b] == places[r, a] and ranks[r, b] > ranks[r, a]:
                    return False
    return True


@njit(nogil=True)
def _permutes(
    places: IntArray,
    groups: IntArray,
    kind: IntArray,
    order: IntArray,
    strides: IntArray,
    writes: bool,
    cursor: IntArray,
    edges: Edges,
) -> None:
    """Edges between all layouts of one kind; a target's in the order of bits, then of sources.

    order: layouts by kind.
    """
    count, axes = places.shape
    group_of_bits = np.zeros(1 << axes, dtype=np.int64)
    for g in range(len(groups)):
        group_of_bits[groups[g]] = g
    differs = np.empty(count, dtype=np.int64)
    stop = 0
    while stop < count:
        start = stop
        while stop < count and kind[order[stop]] == kind[order[start]]:
            stop += 1
        if kind[order[start]] < 0 or stop - start < 2:
            continue
        for t in range(start, stop):
            target = order[t]
            differing_bits = 0
            for s in range(start, stop):
                source = order[s]
                differs[s] = 0
                for a in range(axes):
                    if (
                        places[source, a] != places[target, a]
                        or strides[source, a] != strides[target, a]
                    ):
                        differs[s] |= 1 << a
                differing_bits |= 1 << differs[s]
            for bits in range(1, 1 << axes):
                if not differing_bits >> bits & 1:
                    continue
                price = group_of_bits[bits] * KINDS + _PERMUTE
                for s in range(start, stop):
                    if differs[s] == bits:
                        _put(writes, cursor, edges, order[s], target, price, order[s])


_compiled_sweep = cast(
    Callable[
        [
            IntArray,
            IntArray,
            int,
            IntArray,
            IntArray,
            IntArray,
            IntArray,
            IntArray,
            IntArray,
            IntArray,
            bool,
            IntArray,
            Edges,
        ],
        int,
    ],
    _compile(_sweep),
)


def edges(
    places: IntArray,
    ranks: IntArray,
    slots: int,
    groups: IntArray,
    kind: IntArray,
    strides: IntArray,
) -> tuple[IntArray, Edges]:
    """The start of each node's edges, and the source, price and payload of every edge.

    groups: sets of axes as bits, 1 << axis, in the order of their prices. kind: the permute class
    of a layout; negative where nothing permutes. strides: the strides that a permute keeps or
    changes.
    """
    most = len(places) * (1 + 2 * len(groups))
    counts = np.zeros(most, dtype=np.int64)
    none = np.zeros(0, dtype=np.int32)
    axes = places.shape[1]
    digit = max(axes, 1)
    weights = ((slots + 3) * digit) ** np.arange(axes - 1, -1, -1, dtype=np.int64)
    keys = (places * digit + ranks) @ weights
    by_kind, order = np.argsort(kind, kind="stable"), np.argsort(keys)
    at = (weights, keys, order)
    arguments = (places, ranks, slots, groups, kind, by_kind, strides, *at)
    nodes = _compiled_sweep(*arguments, False, counts, (none, none, none))
    start = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(counts[:nodes], out=start[1:])
    columns = tuple(np.empty(start[-1], dtype=np.int32) for _ in range(3))
    written = (columns[0], columns[1], columns[2])
    _compiled_sweep(*arguments, True, start[:-1].copy(), written)
    return start, written
