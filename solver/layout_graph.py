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

What all_to_all, reduce_scatter and slice have in common, putting G behind the axes of some layout,
is an edge from a *rest* (that layout, with G nowhere) to all layouts it can give. So there are as
many edges as layouts and groups, not as pairs of layouts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from solver.states import PARTIAL, REPLICATED, IntArray, StateSpace

MoveKind = Literal[
    "slice",
    "mask",
    "all_gather",
    "all_reduce",
    "reduce_scatter",
    "all_to_all",
    "uneven all_to_all",
    "permute",
    "placed",
]
Group = tuple[int, ...]
Keys = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LayoutGraph:
    """Layouts, then rests, as nodes; edges by their target (compressed sparse rows).

    places, ranks: (layouts, axes); of an axis on a slot, how many of the slot's axes are slower.
    state: the position of each layout's state in the space. at: the layout of each state with all
    axes in the order of the mesh. start, source: edge e ends in v for start[v] <= e < start[v + 1].
    price: the row of `prices` of an edge. payload: the layout whose part is sent.
    """

    slots: int
    places: IntArray
    ranks: IntArray
    state: IntArray
    at: IntArray
    start: IntArray
    source: NDArray[np.int32]
    price: NDArray[np.int32]
    payload: NDArray[np.int32]
    prices: tuple[tuple[MoveKind, Group], ...]

    @property
    def layouts(self) -> int:
        return len(self.places)

    def end(self, edge: int) -> int:
        """The node in which an edge ends."""
        return int(np.searchsorted(self.start, edge, side="right")) - 1


def layout_graph(space: StateSpace, *, order_is_free: bool) -> LayoutGraph:
    """The graph of a space without gradients; order_is_free: any axes count as the fastest.

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
    states = np.frombuffer(content, dtype=np.int64).reshape(count, len(axis_sizes))
    return _Builder(states, slots, np.array(axis_sizes, dtype=np.int64), order_is_free).graph()


class _Builder:
    def __init__(
        self, states: IntArray, slots: int, axis_sizes: IntArray, order_is_free: bool
    ) -> None:
        self.slots = slots
        self.sizes = axis_sizes
        self.axes = len(axis_sizes)
        self.order_is_free = order_is_free
        self.places, self.ranks, self.state = self._layouts(states)
        keys = self._keys(self.places, self.ranks)
        self.sorted = np.argsort(keys)
        self.keys = keys[self.sorted]
        self.prices: dict[tuple[MoveKind, Group], int] = {}
        self.rests: dict[tuple[int, ...], int] = {}
        self.edges: list[tuple[IntArray, IntArray, IntArray, IntArray]] = []

    def graph(self) -> LayoutGraph:
        for group in _groups(self.axes):
            self._gathers_and_exchanges(group)
            self._reductions(group)
            self._slices_and_masks(group)
        if not self.order_is_free:
            self._permutes()
        source, target, price, payload = (
            np.concatenate([edge[k] for edge in self.edges] or [np.zeros(0, dtype=np.int64)])
            for k in range(4)
        )
        order = np.argsort(target, kind="stable")
        nodes = len(self.places) + len(self.rests)
        start = np.zeros(nodes + 1, dtype=np.int64)
        np.cumsum(np.bincount(target, minlength=nodes), out=start[1:])
        in_order = np.nonzero((self.ranks == _mesh_order(self.places, self.slots)).all(axis=1))[0]
        if self.order_is_free:
            in_order = np.arange(len(self.places))
        return LayoutGraph(
            slots=self.slots,
            places=self.places,
            ranks=self.ranks,
            state=self.state,
            at=in_order,
            start=start,
            source=source[order].astype(np.int32),
            price=price[order].astype(np.int32),
            payload=payload[order].astype(np.int32),
            prices=tuple(self.prices),
        )

    def _layouts(self, states: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Every state in every order of the axes on its slots."""
        own = np.arange(len(states))
        if self.order_is_free:
            return states, np.zeros_like(states), own
        places, ranks, state = [], [], []
        for ordered in permutations(range(self.axes)):
            position = np.argsort(np.array(ordered, dtype=np.int64))
            # how many axes of the same slot come before in this order of all axes
            earlier = position[None, :, None] > position[None, None, :]
            same = (states[:, :, None] == states[:, None, :]) & (states < self.slots)[:, :, None]
            places.append(states)
            ranks.append((earlier & same).sum(axis=2))
            state.append(own)
        joined = np.concatenate([np.concatenate(state)[:, None], *_columns(places, ranks)], axis=1)
        joined = np.unique(joined, axis=0)
        return joined[:, 1 : 1 + self.axes], joined[:, 1 + self.axes :], joined[:, 0]

    def _keys(self, places: IntArray, ranks: IntArray) -> Keys:
        base = (self.slots + 3) * max(self.axes, 1)
        weights = base ** np.arange(self.axes - 1, -1, -1, dtype=np.int64)
        return (places * max(self.axes, 1) + ranks) @ weights

    def _find(self, places: IntArray, ranks: IntArray) -> IntArray:
        """Positions of layouts; -1 where there is none."""
        wanted = self._keys(places, ranks)
        at = np.searchsorted(self.keys, wanted)
        at[at == len(self.keys)] = 0
        return np.where(self.keys[at] == wanted, self.sorted[at], -1)

    def _moved(self, rows: IntArray, group: Group, place: int) -> IntArray:
        """The layouts `rows` with a group's axes at R or P; -1 where that is none."""
        places, ranks = self.places[rows].copy(), self.ranks[rows].copy()
        places[:, list(group)] = self.slots + place
        ranks[:, list(group)] = 0
        return self._find(places, ranks)

    def _fastest(self, group: Group) -> IntArray:
        """The layouts in which a group's axes are the fastest of slots."""
        on_slots = (self.places[:, list(group)] < self.slots).all(axis=1)
        return np.nonzero(on_slots & self._free(group))[0]

    def _free(self, group: Group) -> NDArray[np.bool_]:
        """Whether no other axis lies behind those of a group."""
        found = np.ones(len(self.places), dtype=np.bool_)
        for a in group if not self.order_is_free else ():
            for b in set(range(self.axes)) - set(group):
                same = (self.places[:, a] == self.places[:, b]) & (self.places[:, a] < self.slots)
                found &= ~(same & (self.ranks[:, b] > self.ranks[:, a]))
        return found

    def _rest_keys(self, rows: IntArray, group: Group) -> Keys:
        places, ranks = self.places[rows].copy(), self.ranks[rows].copy()
        places[:, list(group)] = self.slots + 2  # nowhere
        ranks[:, list(group)] = 0
        return self._keys(places, ranks)

    def _rest(self, group: Group, keys: Keys, avoided: int) -> IntArray:
        """Nodes of rests: a layout without a group that must not come to the slots `avoided`."""
        unique, inverse = np.unique(keys, return_inverse=True)
        number = len(self.places) + len(self.rests)
        nodes = np.empty(len(unique), dtype=np.int64)
        for k, key in enumerate(unique.tolist()):
            known = self.rests.setdefault((*group, -1, avoided, key), number)
            number += known == number
            nodes[k] = known
        return nodes[inverse.reshape(-1)]

    def _edge(
        self, kind: MoveKind, group: Group, source: IntArray, target: IntArray, payload: IntArray
    ) -> None:
        price = self.prices.setdefault((kind, group), len(self.prices))
        # of a slot with chunks of the user's own all axes move together: less of them is no layout
        there = (target >= 0) & (payload >= 0)
        self.edges.append(
            (source[there], target[there], np.full(there.sum(), price), payload[there])
        )

    def _gathers_and_exchanges(self, group: Group) -> None:
        rows = self._fastest(group)
        if not len(rows):
            return
        gathered = self._moved(rows, group, REPLICATED)
        self._edge("all_gather", group, rows, gathered, gathered)
        keys = self._rest_keys(rows, group)
        anywhere = self._rest(group, keys, 0)
        self._edge("placed", (), anywhere, rows, rows)
        used = np.bitwise_or.reduce(1 << self.places[rows][:, list(group)], axis=1)
        self._edge("uneven all_to_all", group, rows, anywhere, rows)
        for slots in np.unique(used).tolist():
            leaving = used == slots
            rests = self._rest(group, keys[leaving], slots)
            self._edge("all_to_all", group, rows[leaving], rests, rows[leaving])
            coming = rows[(used & slots) == 0]
            wanted = keys[(used & slots) == 0]
            known, first = np.unique(keys[leaving], return_index=True)
            at = np.searchsorted(known, wanted)
            at[at == len(known)] = 0
            there = known[at] == wanted
            self._edge("placed", (), rests[first][at[there]], coming[there], coming[there])

    def _reductions(self, group: Group) -> None:
        rows = np.nonzero((self.places[:, list(group)] == self.slots + PARTIAL).all(axis=1))[0]
        reduced = self._moved(rows, group, REPLICATED)
        self._edge("all_reduce", group, rows, reduced, rows)
        self._to_rests("reduce_scatter", group, rows)

    def _to_rests(self, kind: MoveKind, group: Group, rows: IntArray) -> None:
        """Edges to the rests from which a group can go to some slot."""
        keys = self._rest_keys(rows, group)
        nodes = np.array(
            [self.rests.get((*group, -1, 0, key), -1) for key in keys.tolist()], dtype=np.int64
        )
        there = nodes >= 0
        self._edge(kind, group, rows[there], nodes[there], rows[there])

    def _slices_and_masks(self, group: Group) -> None:
        is_whole = self.places[:, list(group)] == self.slots + REPLICATED
        self._to_rests("slice", group, np.nonzero(is_whole.all(axis=1))[0])
        rows = np.nonzero(
            self._free(group) & (self.places[:, list(group)] <= self.slots).all(axis=1)
        )
        self._edge("mask", group, rows[0], self._moved(rows[0], group, PARTIAL), rows[0])

    def _permutes(self) -> None:
        """All pairs of layouts with as many chunks of every slot and as many partial values."""
        ways = np.ones((len(self.places), self.slots + 1), dtype=np.int64)
        for a in range(self.axes):
            for k in range(self.slots):
                ways[:, k] *= np.where(self.places[:, a] == k, self.sizes[a], 1)
            partial = self.places[:, a] == self.slots + PARTIAL
            ways[:, self.slots] *= np.where(partial, self.sizes[a], 1)
        strides = self._strides()
        _, kind = np.unique(ways, axis=0, return_inverse=True)
        kind = kind.reshape(-1)
        order = np.argsort(kind, kind="stable")
        for rows in np.split(order, np.nonzero(np.diff(kind[order]))[0] + 1):
            if len(rows) < 2:
                continue
            source, target = (side.ravel() for side in np.meshgrid(rows, rows, indexing="ij"))
            differs = (self.places[source] != self.places[target]) | (
                strides[source] != strides[target]
            )
            groups = differs @ (1 << np.arange(self.axes))
            for bits in np.unique(groups[groups > 0]).tolist():
                own = groups == bits
                group = tuple(a for a in range(self.axes) if bits >> a & 1)
                self._edge("permute", group, source[own], target[own], source[own])

    def _strides(self) -> IntArray:
        """How many chunks of its slot (or partial values) lie between two steps along an axis."""
        found = np.ones_like(self.places)
        for a in range(self.axes):
            for b in range(self.axes):
                same = (self.places[:, a] == self.places[:, b]) & (a != b)
                cuts = same & (self.places[:, a] < self.slots)
                faster = cuts & (self.ranks[:, b] > self.ranks[:, a])
                partial = same & (self.places[:, a] == self.slots + PARTIAL) & (b > a)
                found[:, a] *= np.where(faster | partial, self.sizes[b], 1)
        return found


def _groups(axes: int) -> Iterator[Group]:
    for bits in product((False, True), repeat=axes):
        if any(bits):
            yield tuple(a for a, own in enumerate(bits) if own)


def _mesh_order(places: IntArray, slots: int) -> IntArray:
    """The ranks of axes that lie on their slots in the order of the mesh."""
    found = np.zeros_like(places)
    for a in range(places.shape[1]):
        for b in range(a):
            found[:, a] += (places[:, a] == places[:, b]) & (places[:, a] < slots)
    return found


def _columns(*parts: list[IntArray]) -> list[IntArray]:
    return [np.concatenate(part) for part in parts]
