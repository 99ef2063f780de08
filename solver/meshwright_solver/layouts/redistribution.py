"""Redistribution: the cheapest sequence of collectives between any two states of a value.

Forward, the value goes from its layout in one state to that in the other; backward, the gradient
goes the other way, by a path of its own. With D the cheapest way between two layouts of one array
(`meshwright_solver.layouts.layout_graph` has its moves), and value(s), gradient(s) the layouts that
a state s means:

    forward_ns(s, t) = D(value(s), value(t))
    total_ns(s, t)   = D(value(s), value(t)) + D(gradient(t), gradient(s))

    state    S    R    P    V
    value    S    R    P    R
    gradient S    R    R    P

So axes that do different things backward share a collective forward (S to R on one and S to V on
the other: one all-gather, one slice, one reduce-scatter), and no table has more than the layouts of
one array. D is from all layouts with the axes in the order of the mesh to all others; layouts with
axes in other orders are only passed through.

A slot with a span is sent and gathered filled up to it. Where a collective is priced before it is
known which slots it will cut (reduce_scatter, all_to_all), what it fills up there is left out: at
most MOST_STRETCH (`meshwright_solver.problem.uneven`).

Where experts are asked for unevenly (`meshwright_costmodel.expert_imbalance`) parts are those of
the fullest device, and an all_to_all takes as long as the device that sends or gets most: an even
one goes by the larger of its parts before and after, another as if all its axes came to lie on
experts.

Slots that can be cut in the same ways are interchangeable: D(s, t) = D(p(s), p(t)) for every
permutation p of such slots. Only one source of each such family is searched from
(`meshwright_solver.layouts.slot_symmetry`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from meshwright.schema.collective_step import CollectiveKind
from meshwright_costmodel.collectives import (
    CollectiveCost,
    Extents,
    Interconnect,
    collective_cost,
    collective_lines,
)
from meshwright_costmodel.expert_imbalance import ExpertLoad
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.layouts import shortest_paths
from meshwright_solver.layouts.layout_graph import Group, LayoutGraph, MoveKind, layout_graph
from meshwright_solver.layouts.slot_symmetry import Families, families_of
from meshwright_solver.layouts.states import PARTIAL, REPLICATED, VARIED, StateSpace, StateTable

Codes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A layout: per axis its slot, n (replicated) or n + 1 (partial), and its rank on its slot.

    Rank 0 is the slowest of a slot's axes; all 0 where the order is free.
    """

    codes: Codes
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LayoutStep:
    """One collective or local step over the groups of `axes`.

    payload_bytes: what the collective's price counts, on one device; 0 for local steps.
    """

    kind: CollectiveKind
    axes: Group
    before: Placed
    after: Placed
    payload_bytes: float
    ns: float


Path = tuple[LayoutStep, ...]


@dataclass(frozen=True)
class Redistributions:
    """All pairs of states of one value; states are given by their positions in the space.

    axis_levels: the topology level of every mesh axis. order_is_free: every way starts and ends in
    the order of axes that suits it (parameters, whose layouts only ever grow finer).
    """

    space: StateSpace
    axis_levels: tuple[int, ...]
    interconnect: Interconnect
    order_is_free: bool = False

    def forward_ns(self, source: IntArray, target: IntArray) -> FloatArray:
        """Time of the value's way from source to target, elementwise and broadcast."""
        return self._between(self._value[source], self._value[target])

    def backward_ns(self, source: IntArray, target: IntArray) -> FloatArray:
        """Time of the gradient's way from target to source, elementwise and broadcast."""
        if not self.space.has_gradient:
            return np.zeros(np.broadcast_shapes(source.shape, target.shape))
        return self._between(self._gradient[target], self._gradient[source])

    def total_ns(self, source: IntArray, target: IntArray) -> FloatArray:
        """Time of the value's way and of the gradient's way back, elementwise and broadcast."""
        return self.forward_ns(source, target) + self.backward_ns(source, target)

    def forward_path(self, source: int, target: int) -> Path:
        """The cheapest moves of the value from one state to another."""
        return self._path(int(self._value[source]), int(self._value[target]))

    def backward_path(self, source: int, target: int) -> Path:
        """The cheapest moves of the gradient, from `target` back to `source`."""
        if not self.space.has_gradient:
            return ()
        return self._path(int(self._gradient[target]), int(self._gradient[source]))

    # --- layouts of one array --------------------------------------------------------------------

    @cached_property
    def layouts(self) -> StateSpace:
        """The layouts of the value alone, which are those of the gradient alone."""
        return self.space.value_alone

    @cached_property
    def _value(self) -> IntArray:
        return _halves(self.space.table, self.layouts.table)[0]

    @cached_property
    def _gradient(self) -> IntArray:
        return _halves(self.space.table, self.layouts.table)[1]

    @cached_property
    def graph(self) -> LayoutGraph:
        """All layouts in every order of axes, and the moves between them."""
        return layout_graph(self.layouts, order_is_free=self.order_is_free)

    @cached_property
    def edge_ns(self) -> FloatArray:
        """What each edge of the graph costs."""
        graph = self.graph
        lines = _prices(graph.prices, self.axis_levels, self.space.axis_sizes, self.interconnect)
        payload = self._payload_bytes
        found: FloatArray | None = None
        for latency_ns, ns_per_byte in lines:
            own = latency_ns[graph.price] + ns_per_byte[graph.price] * payload
            found = own if found is None else np.minimum(found, own)
        assert found is not None
        return found

    @cached_property
    def _payload_bytes(self) -> FloatArray:
        """What each edge of the graph sends, on one device."""
        graph = self.graph
        payload = self._local_bytes[graph.state[graph.payload]]
        payload[graph.arriving] = 0.0
        if self.space.load is not None:
            self._add_loads(payload, self.space.load)
        if not self.space.spans:
            return payload
        ends = np.repeat(np.arange(len(graph.start) - 1), np.diff(graph.start))
        known = (graph.source < graph.layouts) & (ends < graph.layouts)
        own = graph.payload[known]
        other = np.where(graph.source[known] == own, ends[known], graph.source[known])
        states = self.layouts.states
        filled = self.layouts.filled(states[graph.state[own]], states[graph.state[other]])
        payload[known] *= filled
        return payload

    def _add_loads(self, payload: FloatArray, load: ExpertLoad) -> None:
        """What the busiest device of an all_to_all gets beyond what the busiest one sends."""
        graph, sizes = self.graph, np.array(self.space.axis_sizes, dtype=np.int64)
        kinds = [kind for kind, _ in graph.prices]
        moving = np.array([[a in group for a in range(len(sizes))] for _, group in graph.prices])
        uneven = np.flatnonzero(
            np.array([kind == "uneven all_to_all" for kind in kinds])[graph.price]
        )
        for edges, is_even in ((graph.arriving, True), (uneven, False)):
            part = graph.payload[edges]
            on = np.isin(graph.places[part], load.on)
            moves = moving[graph.price[edges]]
            has = load.of_ways(np.where(on, sizes, 1).prod(axis=1))
            local = self._local_bytes[graph.state[part]]
            if is_even:
                sent = load.of_ways(np.where(on & ~moves, sizes, 1).prod(axis=1))
                payload[edges] = local * (1 - sent / has)
            else:
                gets = load.of_ways(np.where(on | moves, sizes, 1).prod(axis=1))
                payload[edges] = local * gets / has

    @cached_property
    def _local_bytes(self) -> FloatArray:
        return self.layouts.local_bytes(self.layouts.states)

    def extents(self, axes: Group) -> Extents:
        """The extents of the groups over some axes of the mesh."""
        sizes = self.space.axis_sizes
        return self.interconnect.extents_of((self.axis_levels[a], sizes[a]) for a in axes)

    # --- distances -------------------------------------------------------------------------------

    @cached_property
    def _families(self) -> Families:
        return families_of(self.layouts)

    @cached_property
    def distances(self) -> FloatArray:
        """(sources that stand for their families, layouts)."""
        graph = self.graph
        sources = graph.leaves[self._families.sources]
        return shortest_paths.distances(
            graph.start, graph.source, self.edge_ns, sources, graph.arrives
        )

    def _between(self, source: IntArray, target: IntArray) -> FloatArray:
        families, distances = self._families, self.distances
        if _is_column(source) and _is_column(target.T):
            own = source[:, 0]
            return shortest_paths.looked_up(
                distances, families.family[own], families.renamed, families.renaming[own], target[0]
            )
        if _is_column(source.T) and _is_column(target):
            return self._between(source.T, target.T).T
        renamed = families.renamed[families.renaming[source], target]
        found: FloatArray = distances[families.family[source], renamed]
        return found

    # --- paths -----------------------------------------------------------------------------------

    @cached_property
    def _paths(self) -> dict[tuple[int, int], Path]:
        return {}

    @cached_property
    def _ways_to(self) -> dict[int, NDArray[np.int32]]:
        return {}

    def _path(self, source: int, target: int) -> Path:
        if source == target:
            return ()
        found = self._paths.get((source, target))
        if found is None:
            found = self._paths[source, target] = self._found_path(source, target)
        return found

    def _found_path(self, source: int, target: int) -> Path:
        graph = self.graph
        if target not in self._ways_to:
            self._ways_to[target] = shortest_paths.next_edges(
                graph.start, graph.source, self.edge_ns, int(graph.arrives[target])
            )
        ways = self._ways_to[target]
        at, end = int(graph.leaves[source]), int(graph.arrives[target])
        moves = []
        while at != end:
            edge = int(ways[at])
            after, edges = graph.end(edge), [edge]
            if at >= graph.layouts or after == end >= graph.layouts:  # of all orders, the one taken
                at = after
                continue
            if after >= graph.layouts:  # a rest: the next edge says where its axes go
                edges.append(int(ways[after]))
                after = graph.end(edges[-1])
            moves.append(self._move(at, after, edges))
            at = after
        return tuple(_joined(moves))

    def _move(self, before: int, after: int, edges: Sequence[int]) -> LayoutStep:
        graph = self.graph
        kinds = [graph.prices[graph.price[edge]] for edge in edges]
        kind, axes = kinds[0]
        local = kind in ("slice", "mask")
        if kind == "uneven all_to_all":
            # all axes stay on their slots, in another order: every part goes whole to one device
            stays = bool((graph.places[before] == graph.places[after]).all())
            kind = "permute" if stays else "all_to_all"
        paid = [edge for edge, (own, _) in zip(edges, kinds, strict=True) if own != "placed"]
        return LayoutStep(
            kind,
            axes,
            self._placed(before),
            self._placed(after),
            0.0 if local else float(self._payload_bytes[paid].sum()),
            float(self.edge_ns[edges].sum()),
        )

    def _placed(self, layout: int) -> Placed:
        graph = self.graph
        return Placed(tuple(graph.places[layout].tolist()), tuple(graph.ranks[layout].tolist()))


@lru_cache(maxsize=256)
def _halves(states: StateTable, layouts: StateTable) -> tuple[IntArray, IntArray]:
    """The layouts of value and of gradient that states mean: the same for all values cut alike."""
    n, codes = states.slots, states.states
    value = np.where(codes == n + VARIED, n + REPLICATED, codes)
    gradient = np.where(codes == n + PARTIAL, n + REPLICATED, codes)
    gradient = np.where(codes == n + VARIED, n + PARTIAL, gradient)
    return layouts.index(value), layouts.index(gradient)


@lru_cache(maxsize=256)
def _prices(
    moves: tuple[tuple[MoveKind, Group], ...],
    axis_levels: tuple[int, ...],
    axis_sizes: tuple[int, ...],
    links: Interconnect,
) -> list[tuple[FloatArray, FloatArray]]:
    """Latency and ns per byte of every move of a graph, of each of the lines of its time.

    The same for all values on a mesh.
    """
    prices = [
        _price(kind, links.extents_of((axis_levels[a], axis_sizes[a]) for a in group), links).lines
        for kind, group in moves
    ]
    # a price of fewer lines has its last one several times
    return [
        (
            np.array([lines[min(place, len(lines) - 1)][0] for lines in prices]),
            np.array([lines[min(place, len(lines) - 1)][1] for lines in prices]),
        )
        for place in range(max([len(lines) for lines in prices], default=1))
    ]


def _price(kind: MoveKind, extents: Extents, links: Interconnect) -> CollectiveCost:
    match kind:
        case "slice" | "mask" | "placed":
            return CollectiveCost(latency_ns=0.0, ns_per_byte=0.0)
        case "arrive":
            exchange = collective_cost("all_to_all", extents, links)
            return CollectiveCost(0.0, exchange.large_ns_per_byte)
        case "permute":
            return collective_cost("send", extents, links)
        case "uneven all_to_all":
            pairs = zip(
                collective_lines("all_to_all", extents, links),
                collective_lines("send", extents, links),
                strict=True,
            )
            return CollectiveCost.least_of((own[0], sent[1]) for own, sent in pairs)
        case _:
            return collective_cost(kind, extents, links)


def _is_column(array: IntArray) -> bool:
    return array.ndim == 2 and array.shape[1] == 1


def _joined(moves: list[LayoutStep]) -> list[LayoutStep]:
    """Local steps of one kind that follow each other, as one."""
    found = []
    for kind, own in groupby(moves, key=lambda move: move.kind):
        run = list(own)
        if kind not in ("slice", "mask"):
            found += run
            continue
        axes = tuple(sorted({axis for move in run for axis in move.axes}))
        found.append(replace(run[0], axes=axes, after=run[-1].after))
    return found
