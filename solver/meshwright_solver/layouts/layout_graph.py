"""The layouts of one value in every order of their axes, and the collectives between them.

A node gives the place of every mesh axis: a slot and the rank there (0 is the slowest axis), R
(replicated) or P (partial). The axes of a slot cut it into equal chunks, slowest first. A
collective therefore takes the fastest axes of a slot, or adds axes behind the others. G: the axes
that move.

    collective        G before          G after           payload on one device
    slice             R                 behind on slots   -
    mask              R, or a slot's    P                 -
                      fastest
    all_gather        slots' fastest    R                 the gathered part
    all_reduce        P                 R                 the partial part
    reduce_scatter    P                 behind on slots   the partial part
    all_to_all        slots' fastest    behind on slots   the part
    permute           anywhere          anywhere          the part

A permute sends every part whole to one other device. All slots are cut into as many chunks as
before and as many partial values are added, by other axes or in another order. An all_to_all in
which a slot loses axes and gets others is *uneven*: pairs of devices exchange more or less than
1/n. It is priced as if each part left its device whole.

Parts are whole chunks of a slot on every path. An axis between others of its slot never moves
alone, so no path passes through strided parts.

Where the order at rest is free (parameters), each path starts and ends in its cheapest order. A
state then has a source node before all orders of its layout, and a target node behind them. Within
a path the last axis added to a slot leaves first, as everywhere. No permutes exist here: the order
is chosen once.

All_to_all, reduce_scatter and slice share their second half: G goes behind the axes of some layout.
That half is an edge from a *rest* (the layout with G nowhere) to all layouts it can give. So the
number of edges grows with layouts and groups, not with pairs of layouts. Even all_to_alls have
rests of their own, which they leave by edges that *arrive*: with an uneven load of experts
(`meshwright_costmodel.expert_imbalance`) the fullest device receives more than it sends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.layouts.layout_edges import Edges, edges, list_layouts
from meshwright_solver.layouts.states import PARTIAL, StateSpace

MoveKind = Literal[
    "slice",
    "mask",
    "all_gather",
    "all_reduce",
    "reduce_scatter",
    "all_to_all",
    "uneven all_to_all",
    "permute",
    "arrive",
    "placed",
]
Group = tuple[int, ...]

# the kinds of each group, in the order of `meshwright_solver.layouts.layout_edges`
_KINDS: tuple[MoveKind, ...] = (
    "all_gather",
    "uneven all_to_all",
    "all_to_all",
    "all_reduce",
    "reduce_scatter",
    "slice",
    "mask",
    "permute",
    "arrive",
)


@dataclass(frozen=True, slots=True)
class LayoutGraph:
    """Layouts, then rests, then ends, as nodes; edges by their target (compressed sparse rows).

    places, ranks: (layouts, axes); the rank of an axis is the number of slower axes on its slot.
    state: the position of each layout's state in the space. leaves, arrives: the nodes in which the
    paths of each state start and end. This is the layout with all axes in the order of the mesh, or
    an end that stands for all its orders. start, source: edge e ends in v for start[v] <= e <
    start[v + 1]. price: the row of `prices` of an edge. payload: the layout whose part is sent.
    arriving: the edges on which even all_to_alls arrive.
    """

    slots: int
    places: IntArray
    ranks: IntArray
    state: IntArray
    leaves: IntArray
    arrives: IntArray
    start: IntArray
    source: NDArray[np.int32]
    price: NDArray[np.int32]
    payload: NDArray[np.int32]
    arriving: IntArray
    prices: tuple[tuple[MoveKind, Group], ...]

    @property
    def layouts(self) -> int:
        return len(self.places)

    def end(self, edge: int) -> int:
        """The node in which an edge ends."""
        return int(np.searchsorted(self.start, edge, side="right")) - 1


def layout_graph(space: StateSpace, *, order_is_free: bool) -> LayoutGraph:
    """The graph of a space without gradients; order_is_free: paths start and end in any order.

    Values that differ in bytes alone, as in the levels of a U-Net, share one graph.
    """
    assert not space.has_gradient
    states = space.states
    return cached_layout_graph(
        states.tobytes(), len(states), space.slots, space.axis_sizes, order_is_free
    )


@lru_cache(maxsize=64)
def cached_layout_graph(
    content: bytes, count: int, slots: int, axis_sizes: tuple[int, ...], order_is_free: bool
) -> LayoutGraph:
    axes = len(axis_sizes)
    states = np.frombuffer(content, dtype=np.int64).reshape(count, axes).copy()
    orders = list(permutations(range(axes)))
    positions = np.array(orders, dtype=np.int64).reshape(len(orders), axes)
    state, ranks = list_layouts(states, slots, positions)
    places = states[state]
    kind = (
        np.full(len(places), -1) if order_is_free else _permute_classes(places, slots, axis_sizes)
    )
    groups = list(_groups(axes))
    bits = np.array([sum(1 << a for a in group) for group in groups], dtype=np.int64)
    strides = _strides(places, ranks, slots, axis_sizes)
    start, edge_columns = edges(places, ranks, slots, bits, kind, strides)
    if order_is_free:
        start, edge_columns, leaves, arrives = _with_ends(start, edge_columns, state, count)
    else:
        leaves = arrives = np.flatnonzero((ranks == _mesh_order(places, slots)).all(axis=1))
    source, price, payload = edge_columns
    return LayoutGraph(
        slots=slots,
        places=places,
        ranks=ranks,
        state=state,
        leaves=leaves,
        arrives=arrives,
        start=start,
        source=source,
        price=price,
        payload=payload,
        arriving=np.flatnonzero((price > 0) & (price % len(_KINDS) == 0)),
        prices=(("placed", ()), *((kind, group) for group in groups for kind in _KINDS)),
    )


def _with_ends(
    start: IntArray, edges: Edges, state: IntArray, count: int
) -> tuple[IntArray, Edges, IntArray, IntArray]:
    """The edges with those from a source node to all layouts of a state, and to a target node."""
    layouts, nodes = np.arange(len(state)), len(start) - 1
    leaves, arrives = nodes + np.arange(count), nodes + count + np.arange(count)
    target = np.concatenate([np.repeat(np.arange(nodes), np.diff(start)), layouts, arrives[state]])
    order = np.argsort(target, kind="stable")
    placed = np.zeros_like(layouts)
    added = ((leaves[state], layouts), (placed, placed), (layouts, layouts))
    source, price, payload = (
        np.concatenate([column, *more]).astype(np.int32)[order]
        for column, more in zip(edges, added, strict=True)
    )
    counts = np.bincount(target, minlength=nodes + 2 * count)
    return np.concatenate([[0], np.cumsum(counts)]), (source, price, payload), leaves, arrives


def _groups(axes: int) -> Iterator[Group]:
    for bits in product((False, True), repeat=axes):
        if any(bits):
            yield tuple(a for a, is_in_group in enumerate(bits) if is_in_group)


def _permute_classes(places: IntArray, slots: int, axis_sizes: tuple[int, ...]) -> IntArray:
    """A number for every layout; equal where a permute can lead from one to the other.

    Such layouts cut all slots into equally many chunks and have equally many partial values.
    """
    classes = np.zeros(len(places), dtype=np.int64)
    for place in (*range(slots), slots + PARTIAL):
        ways = np.where(places == place, np.array(axis_sizes, dtype=np.int64), 1).prod(axis=1)
        _, class_of_place = np.unique(ways, return_inverse=True)
        _, classes = np.unique(
            classes * (class_of_place.max(initial=0) + 1) + class_of_place, return_inverse=True
        )
    return classes


def _strides(
    places: IntArray, ranks: IntArray, slots: int, axis_sizes: tuple[int, ...]
) -> IntArray:
    """The number of chunks of a slot (or partial values) between two steps along an axis."""
    strides = np.ones_like(places)
    for a in range(len(axis_sizes)):
        for b, size in enumerate(axis_sizes):
            same = (places[:, a] == places[:, b]) & (a != b)
            faster = same & (places[:, a] < slots) & (ranks[:, b] > ranks[:, a])
            partial = same & (places[:, a] == slots + PARTIAL) & (b > a)
            strides[:, a] *= np.where(faster | partial, size, 1)
    return strides


def _mesh_order(places: IntArray, slots: int) -> IntArray:
    """The ranks of axes that lie on their slots in the order of the mesh."""
    ranks = np.zeros_like(places)
    for a in range(places.shape[1]):
        for b in range(a):
            ranks[:, a] += (places[:, a] == places[:, b]) & (places[:, a] < slots)
    return ranks
