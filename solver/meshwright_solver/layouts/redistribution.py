"""Redistribution: the cheapest sequence of collectives between any two states of a value.

Forward, the value goes from its layout in one state to that in the other. Backward, the gradient
goes the other way, by a path of its own. D is the cost of the cheapest path between two layouts of
one array (`meshwright_solver.layouts.layout_graph` has its steps). value(s) and gradient(s) are the
layouts of a state s:

    forward_ns(s, t) = D(value(s), value(t))
    total_ns(s, t)   = D(value(s), value(t)) + D(gradient(t), gradient(s))

    state    S    R    P    V
    value    S    R    P    R
    gradient S    R    R    P

Axes that differ only backward share a collective forward: S to R on one axis and S to V on the
other are one all-gather. No table has more entries than the layouts of one array. D goes from all
layouts with the axes in the order of the mesh to all others; layouts with axes in other orders are
only intermediate.

A slot with a span is sent and gathered filled up to the span. A collective that is priced before
its slots are known (reduce_scatter, all_to_all) leaves the padding there out: at most MOST_STRETCH
(`meshwright_solver.problem.uneven`).

A value that only products in 8 bits read is sent in 8 bits (`StateSpace.sent_share`), unless its
layout has partial values; its gradient is not.

With an uneven load of experts (`meshwright_costmodel.expert_imbalance`) parts are those of the
fullest device. An all_to_all takes as long as the device that sends or receives most. An even one
uses the larger of its parts before and after, an uneven one is priced as if all its axes came to
lie on experts.

Slots with equal cuts are interchangeable: D(s, t) = D(p(s), p(t)) for every permutation p of such
slots. The search starts from only one source of each such family
(`meshwright_solver.layouts.slot_symmetry`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby
from typing import NamedTuple

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
from meshwright_solver.common.arrays import BoolArray, FloatArray, IntArray
from meshwright_solver.layouts import shortest_paths
from meshwright_solver.layouts.layout_graph import Group, LayoutGraph, MoveKind, layout_graph
from meshwright_solver.layouts.slot_symmetry import Families, families_of
from meshwright_solver.layouts.states import PARTIAL, REPLICATED, VARIED, StateSpace, StateTable

Codes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A layout: per axis its slot, n (replicated) or n + 1 (partial), and its rank on its slot.

    Rank 0 is the slowest of a slot's axes; all ranks are 0 where the order is free.
    """

    codes: Codes
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LayoutStep:
    """One collective or local step over the groups of `axes`.

    payload_bytes: the payload on one device that the price counts; 0 for local steps.
    """

    kind: CollectiveKind
    axes: Group
    before: Placed
    after: Placed
    payload_bytes: float
    ns: float


Path = tuple[LayoutStep, ...]


class Counted(NamedTuple):
    """The parts of a redistribution that count: of the value's path and of the gradient's."""

    forward: float
    backward: float


WHOLE = Counted(1.0, 1.0)


class _Distances(NamedTuple):
    """ns: (families, layouts), of the families that are known."""

    ns: FloatArray
    is_known: BoolArray


@dataclass(frozen=True)
class Redistributions:
    """All pairs of states of one value, states given by their positions in the space.

    axis_levels: the topology level of every mesh axis. order_is_free: every path starts and ends in
    its cheapest order of axes (parameters, whose layouts only ever become finer).
    """

    space: StateSpace
    axis_levels: tuple[int, ...]
    interconnect: Interconnect
    order_is_free: bool = False

    def forward_ns(self, source: IntArray, target: IntArray) -> FloatArray:
        """Time of the value's path from source to target, elementwise and broadcast."""
        first, last = self._value[source], self._value[target]
        if self._narrow is None:
            return self._cost_between(first, last)
        return np.where(
            self._is_summed[first],
            self._cost_between(first, last),
            self._narrow._cost_between(first, last),
        )

    def backward_ns(self, source: IntArray, target: IntArray) -> FloatArray:
        """Time of the gradient's path from target to source, elementwise and broadcast."""
        if not self.space.has_gradient:
            return np.zeros(np.broadcast_shapes(source.shape, target.shape))
        return self._cost_between(self._gradient[target], self._gradient[source])

    def total_ns(self, source: IntArray, target: IntArray, counted: Counted = WHOLE) -> FloatArray:
        """Time of the value's path and of the gradient's path back, elementwise and broadcast.

        counted: the part of each that counts.
        """
        forward, backward = self.forward_ns(source, target), self.backward_ns(source, target)
        return forward * counted.forward + backward * counted.backward

    def forward_path(self, source: int, target: int) -> Path:
        """The cheapest steps of the value from one state to another."""
        first, last = int(self._value[source]), int(self._value[target])
        if self._narrow is None or self._is_summed[first]:
            return self._path(first, last)
        return self._narrow._path(first, last)

    def backward_path(self, source: int, target: int) -> Path:
        """The cheapest steps of the gradient, from `target` back to `source`."""
        if not self.space.has_gradient:
            return ()
        return self._path(int(self._gradient[target]), int(self._gradient[source]))

    # --- layouts of one array --------------------------------------------------------------------

    @cached_property
    def layouts(self) -> StateSpace:
        """The layouts of the value alone, which are those of the gradient alone."""
        return self.space.value_alone

    @cached_property
    def _narrow(self) -> Redistributions | None:
        """The redistributions of the value in the bytes that are sent; None if these are all."""
        if self.space.sent_share == 1.0:
            return None
        return replace(self, space=self.space.as_sent)

    @cached_property
    def _is_summed(self) -> BoolArray:
        """By layout: whether it has partial values, whose sums are sent in all bytes."""
        summed: BoolArray = (self.layouts.states == self.layouts.slots + PARTIAL).any(axis=1)
        return summed

    @cached_property
    def _value(self) -> IntArray:
        return _halves(self.space.table, self.layouts.table)[0]

    @cached_property
    def _gradient(self) -> IntArray:
        return _halves(self.space.table, self.layouts.table)[1]

    @cached_property
    def graph(self) -> LayoutGraph:
        """All layouts in every order of axes, and the steps between them."""
        return layout_graph(self.layouts, order_is_free=self.order_is_free)

    @cached_property
    def edge_ns(self) -> FloatArray:
        """The cost of each edge of the graph."""
        graph = self.graph
        lines = _prices(graph.prices, self.axis_levels, self.space.axis_sizes, self.interconnect)
        payload = self._payload_bytes
        least_ns: FloatArray | None = None
        for latency_ns, ns_per_byte in lines:
            cost_ns = latency_ns[graph.price] + ns_per_byte[graph.price] * payload
            least_ns = cost_ns if least_ns is None else np.minimum(least_ns, cost_ns)
        assert least_ns is not None
        return least_ns

    @cached_property
    def _payload_bytes(self) -> FloatArray:
        """The payload of each edge of the graph, on one device."""
        graph = self.graph
        payload = self._local_bytes[graph.state[graph.payload]]
        payload[graph.arriving] = 0.0
        if self.space.load is not None:
            self._add_loads(payload, self.space.load)
        if not self.space.spans:
            return payload
        ends = np.repeat(np.arange(len(graph.start) - 1), np.diff(graph.start))
        known = (graph.source < graph.layouts) & (ends < graph.layouts)
        layout = graph.payload[known]
        other = np.where(graph.source[known] == layout, ends[known], graph.source[known])
        states = self.layouts.states
        filled = self.layouts.filled(states[graph.state[layout]], states[graph.state[other]])
        payload[known] *= filled
        return payload

    def _add_loads(self, payload: FloatArray, load: ExpertLoad) -> None:
        """Set the payloads of all_to_alls by the device that sends or receives most."""
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

    @property
    def distances(self) -> FloatArray:
        """(families, layouts): the cost of the cheapest path from a family's source, in ns."""
        return self._distances_from(np.arange(len(self._families.sources)))

    @cached_property
    def _distances(self) -> _Distances:
        shape = len(self._families.sources), len(self.graph.arrives)
        return _Distances(np.empty(shape), np.zeros(shape[0], dtype=np.bool_))

    def _distances_from(self, families: IntArray) -> FloatArray:
        """`distances`, of which only the rows of `families` are known; the first use computes
        them."""
        known, graph = self._distances, self.graph
        missing = np.unique(families[~known.is_known[families]])
        if len(missing):
            sources = graph.leaves[self._families.sources[missing]]
            known.ns[missing] = shortest_paths.distances(
                graph.start, graph.source, self.edge_ns, sources, graph.arrives
            )
            known.is_known[missing] = True
        return known.ns

    def _cost_between(self, source: IntArray, target: IntArray) -> FloatArray:
        families = self._families
        if _is_column(source) and _is_column(target.T):
            layouts = source[:, 0]
            of_layouts = families.family[layouts]
            return shortest_paths.look_up_distances(
                self._distances_from(of_layouts),
                of_layouts,
                families.renamed,
                families.renaming[layouts],
                target[0],
            )
        if _is_column(source.T) and _is_column(target):
            return self._cost_between(source.T, target.T).T
        renamed = families.renamed[families.renaming[source], target]
        of_source = families.family[source]
        cost_ns: FloatArray = self._distances_from(of_source)[of_source, renamed]
        return cost_ns

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
        path = self._paths.get((source, target))
        if path is None:
            path = self._paths[source, target] = self._compute_path(source, target)
        return path

    def _compute_path(self, source: int, target: int) -> Path:
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
            if at >= graph.layouts or after == end >= graph.layouts:  # the choice of an order
                at = after
                continue
            if after >= graph.layouts:  # a rest: the next edge gives the places of its axes
                edges.append(int(ways[after]))
                after = graph.end(edges[-1])
            moves.append(self._move(at, after, edges))
            at = after
        return tuple(_join_local_steps(moves))

    def _move(self, before: int, after: int, edges: Sequence[int]) -> LayoutStep:
        graph = self.graph
        kinds = [graph.prices[graph.price[edge]] for edge in edges]
        kind, axes = kinds[0]
        local = kind in ("slice", "mask")
        if kind == "uneven all_to_all":
            # all axes stay on their slots, in another order: every part goes whole to one device
            stays = bool((graph.places[before] == graph.places[after]).all())
            kind = "permute" if stays else "all_to_all"
        paid = [
            edge for edge, (edge_kind, _) in zip(edges, kinds, strict=True) if edge_kind != "placed"
        ]
        return LayoutStep(
            kind,
            axes,
            self._layout_at(before),
            self._layout_at(after),
            0.0 if local else float(self._payload_bytes[paid].sum()),
            float(self.edge_ns[edges].sum()),
        )

    def _layout_at(self, layout: int) -> Placed:
        graph = self.graph
        return Placed(tuple(graph.places[layout].tolist()), tuple(graph.ranks[layout].tolist()))


@lru_cache(maxsize=256)
def _halves(states: StateTable, layouts: StateTable) -> tuple[IntArray, IntArray]:
    """The value's and the gradient's layout of every state; equal for values with equal cuts."""
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
    """Latency and ns per byte of every kind of step of a graph, for each line of its cost.

    The result is the same for all values on a mesh.
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
            return CollectiveCost.least_of((line[0], sent[1]) for line, sent in pairs)
        case _:
            return collective_cost(kind, extents, links)


def _is_column(array: IntArray) -> bool:
    return array.ndim == 2 and array.shape[1] == 1


def _join_local_steps(moves: list[LayoutStep]) -> list[LayoutStep]:
    """Join consecutive local steps of one kind."""
    joined = []
    for kind, moves_of_kind in groupby(moves, key=lambda move: move.kind):
        run = list(moves_of_kind)
        if kind not in ("slice", "mask"):
            joined += run
            continue
        axes = tuple(sorted({axis for move in run for axis in move.axes}))
        joined.append(replace(run[0], axes=axes, after=run[-1].after))
    return joined
