"""The layouts of one value in every order of their axes, and the collectives between them.

A node says for every mesh axis where it is: on a slot and how far from the slowest axis there, at
R (replicated) or at P (partial). The axes of a slot cut it into equal chunks, slowest first, so a
collective takes the fastest axes of a slot, or adds them behind the others. G: the axes that move.

    collective        G before          G after           payload on one device
    slice             R                 behind on slots   -
    mask              R, or a slot's    P                 -
                      fastest
    all_gather        slots' fastest    R                 the gathered part
    all_reduce        P                 R                 the partial part
    reduce_scatter    P                 behind on slots   the partial part
    all_to_all        slots' fastest    behind on slots   the part
    permute           anywhere          anywhere          the part

A permute sends every part whole to one other device: all slots are cut into as many chunks as
before, and as many partial values are added up, by other axes or in another order. An all_to_all in
which a slot loses axes and gets others is *uneven*: pairs of devices exchange more or less than
1/n; it is priced as if each part left its device whole.

Parts are whole chunks of a slot on every way: an axis that lies between others of its slot never
leaves alone, so nothing passes through strided parts.

Where the order at rest is free (parameters), each way may start and end in the order that suits it:
a state has a node of its own before all orders of its layout, and one behind them. On the way what
was put down last leaves first, as everywhere. Nothing permutes there: the order is chosen once.

What all_to_all, reduce_scatter and slice have in common, putting G behind the axes of some layout,
is an edge from a *rest* (that layout, with G nowhere) to all layouts it can give. So there are as
many edges as layouts and groups, not as pairs of layouts. Even all_to_alls have rests of their own,
which they leave by edges that *arrive*: where experts are asked for unevenly
(`meshwright_costmodel.expert_imbalance`) the fullest device gets more than it sends.
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
from meshwright_solver.layouts.layout_edges import Edges, edges, ordered
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

# of each group, in the order of `meshwright_solver.layouts.layout_edges`
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

    places, ranks: (layouts, axes); of an axis on a slot, how many of the slot's axes are slower.
    state: the position of each layout's state in the space. leaves, arrives: the nodes in which the
    ways of each state start and end: the layout with all axes in the order of the mesh, or an end
    that stands for all its orders. start, source: edge e ends in v for start[v] <= e <
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
    """The graph of a space without gradients; order_is_free: ways start and end in any order.

    Values that differ in bytes alone, as in the levels of a U-Net, share one.
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
    state, ranks = ordered(states, slots, positions)
    places = states[state]
    kind = np.full(len(places), -1) if order_is_free else _ways(places, slots, axis_sizes)
    groups = list(_groups(axes))
    bits = np.array([sum(1 << a for a in group) for group in groups], dtype=np.int64)
    strides = _strides(places, ranks, slots, axis_sizes)
    start, found = edges(places, ranks, slots, bits, kind, strides)
    if order_is_free:
        start, found, leaves, arrives = _with_ends(start, found, state, count)
    else:
        leaves = arrives = np.flatnonzero((ranks == _mesh_order(places, slots)).all(axis=1))
    source, price, payload = found
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
    """Edges from a node for each state to all its layouts, and from these to another one."""
    layouts, nodes = np.arange(len(state)), len(start) - 1
    leaves, arrives = nodes + np.arange(count), nodes + count + np.arange(count)
    target = np.concatenate([np.repeat(np.arange(nodes), np.diff(start)), layouts, arrives[state]])
    order = np.argsort(target, kind="stable")
    placed = np.zeros_like(layouts)
    added = ((leaves[state], layouts), (placed, placed), (layouts, layouts))
    source, price, payload = (
        np.concatenate([own, *more]).astype(np.int32)[order]
        for own, more in zip(edges, added, strict=True)
    )
    counts = np.bincount(target, minlength=nodes + 2 * count)
    return np.concatenate([[0], np.cumsum(counts)]), (source, price, payload), leaves, arrives


def _groups(axes: int) -> Iterator[Group]:
    for bits in product((False, True), repeat=axes):
        if any(bits):
            yield tuple(a for a, own in enumerate(bits) if own)


def _ways(places: IntArray, slots: int, axis_sizes: tuple[int, ...]) -> IntArray:
    """A number for every layout: equal where all slots are cut, and values partial, as often."""
    found = np.zeros(len(places), dtype=np.int64)
    for place in (*range(slots), slots + PARTIAL):
        ways = np.where(places == place, np.array(axis_sizes, dtype=np.int64), 1).prod(axis=1)
        _, own = np.unique(ways, return_inverse=True)
        _, found = np.unique(found * (own.max(initial=0) + 1) + own, return_inverse=True)
    return found


def _strides(
    places: IntArray, ranks: IntArray, slots: int, axis_sizes: tuple[int, ...]
) -> IntArray:
    """How many chunks of its slot (or partial values) lie between two steps along an axis."""
    found = np.ones_like(places)
    for a in range(len(axis_sizes)):
        for b, size in enumerate(axis_sizes):
            same = (places[:, a] == places[:, b]) & (a != b)
            faster = same & (places[:, a] < slots) & (ranks[:, b] > ranks[:, a])
            partial = same & (places[:, a] == slots + PARTIAL) & (b > a)
            found[:, a] *= np.where(faster | partial, size, 1)
    return found


def _mesh_order(places: IntArray, slots: int) -> IntArray:
    """The ranks of axes that lie on their slots in the order of the mesh."""
    found = np.zeros_like(places)
    for a in range(places.shape[1]):
        for b in range(a):
            found[:, a] += (places[:, a] == places[:, b]) & (places[:, a] < slots)
    return found
