"""Collective time: latency of the steps plus transfer time over the links that the group crosses.

A group is the product of some mesh axes. Its extents are the numbers of its members along each
level of the topology, slowest first.

    symbol   meaning                                                                   unit
    N        payload_bytes of one device: the gathered tensor (all_gather), the tensor  byte
             before the reduction (reduce_scatter, all_reduce), the device's part
             (all_to_all), the message (broadcast, send)
    g_l      extent of the group along level l
    n        product of all g_l: members of the group
    m_l      product of the g_j of the levels below l: members in one unit of level l
    b_l      bandwidth of one device into level l, one direction, while all its        byte/s
             neighbors communicate too: device_bytes_per_s * link_efficiency
    a_l      latency of one step over level l                                          ns
    s_l      steps over level l: ceil(log2 g_l), recursive doubling

    all_gather, reduce_scatter   t = sum_l s_l a_l + max_l N (g_l - 1) / (g_l m_l b_l)
    all_reduce                   t = reduce_scatter + all_gather
    all_to_all                   t = sum_l s_l a_l + max_l N (g_l - 1) m_l / (n b_l)
    broadcast                    t = sum_l s_l a_l + max_l N / (m_l b_l)
    send                         t = a_c + N / b_c with c the slowest level that is crossed

Sums and maxima run over the levels with g_l > 1; a group of one device costs nothing.

Protocols: where a calibration has curves of the device, each protocol p of its library has a line,
and the fastest line holds (NCCL chooses among LL, LL128 and Simple in this way):

    t = min_p (start_p + rounds fill_p + steps_p + N slope_p)

with step_p a_l for a_l, and share_p of the bare link for b_l. fill_p is the time to fill the
pipeline of nodes. An all_reduce fills it twice; all_to_all and send exchange directly and have no
fill. Where the switch reduces (NVLS), an all-reduce inside a node has one more line: every device
sends N and receives N, at the measured share of the link. Where curves have factors for a kind,
these multiply its latency and its time per byte.

The factor (g_l - 1) / (g_l m_l): a gather proceeds level by level, slowest level first. Each unit
of level l has 1/g_l of the data of its parent and receives the rest from its g_l - 1 siblings
through the m_l ports of its members. A group across nodes therefore has the bandwidth of one
network port times its members in a node, limited by the links inside the node (the term of the
fastest level). The levels form a pipeline, hence the maximum. In an all_to_all every pair exchanges
N/n directly: a device reaches (g_l - 1) m_l of its n partners over level l.

Full mesh: a link of such a kind (`link_kinds.py`) connects every pair of units by a separate wire.
A group of g_l of the level's S_l units then has (g_l - 1) / (S_l - 1) of b_l, and a send one wire.

Torus: each level of kind `torus` or `grid` is one dimension, and b_l is the sum over a device's two
wires in it. A group of all S_l units of a torus is a ring, which has b_l. Any other group is a line
of neighbors, whose ends have one wire: b_l / 2, as a send has. (A group whose members are not
neighbors shares its wires with the groups between; the model does not know.) Neighboring
dimensions work together: with g = prod g_l and b = sum b_l over the dimensions that a group crosses
(Austin et al., How to Scale Your Model, 2025, part 3),

    all_gather, reduce_scatter   N (g - 1) / (g m b)
    all_to_all                   max_l N g_l / (4 b_l): messages pass g_l / 4 wires on the mean
    s_l                          floor(g_l / 2) of a ring, g_l - 1 of a line

The protocols of a library are those of switched networks; a topology with a torus has none.

Routed tokens: in an all_to_all that sends one copy of a token to each unit with some of its k
experts, u_l = g_1 ... g_l units are there at level l, of which a token visits u (1 - (1 - 1 / u)^k)
with evenly chosen experts. A router that limits the units of the outermost level limits u_l too.
Copies are forwarded inside a unit, so that all that arrive there pass the inner levels:

    all_to_all   t = sum_l s_l a_l + max_l N v_l / k (g_l - 1) / (g_l b_l)   v_l: units visited

All other kinds are modeled as switches, which give b_l to any group.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Axis, Calibration, LayoutError, Link, Mesh, Topology
from meshwright.schema.curves import DeviceCurves
from meshwright_costmodel.curves import rates_of
from meshwright_costmodel.link_kinds import (
    is_full_mesh,
    is_in_node,
    is_line,
    is_reducing_switch,
    is_ring,
)

Collective = Literal[
    "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast", "send"
]
Extents = tuple[int, ...]

NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """The time of one collective: the minimum of several lines over its payload.

    latency_ns, ns_per_byte: of the first line. others: (latency_ns, ns_per_byte) of further lines,
    each with a longer latency and a shorter time per byte than the previous line.
    """

    latency_ns: float
    ns_per_byte: float
    others: tuple[tuple[float, float], ...] = ()

    @classmethod
    def least_of(cls, lines: Iterable[tuple[float, float]]) -> CollectiveCost:
        """The minimum of lines in any order; some redundant lines may remain."""
        selected: list[tuple[float, float]] = []
        for latency_ns, ns_per_byte in sorted(lines):
            if not selected or ns_per_byte < selected[-1][1]:
                selected.append((latency_ns, ns_per_byte))
        return cls(*selected[0], tuple(selected[1:]))

    @property
    def lines(self) -> tuple[tuple[float, float], ...]:
        return ((self.latency_ns, self.ns_per_byte), *self.others)

    @property
    def large_ns_per_byte(self) -> float:
        """Time per additional byte of a large message, in ns."""
        return self.lines[-1][1]

    @overload
    def ns(self, payload_bytes: float) -> float: ...
    @overload
    def ns(self, payload_bytes: NDArray[Any]) -> NDArray[np.float64]: ...
    def ns(self, payload_bytes: float | NDArray[Any]) -> float | NDArray[np.float64]:
        """Time in ns for one payload in bytes, or elementwise for an array of payloads."""
        if isinstance(payload_bytes, np.ndarray):
            payload_bytes = payload_bytes.astype(np.float64)
        minimum: Any = self.latency_ns + self.ns_per_byte * payload_bytes
        least = np.minimum if isinstance(payload_bytes, np.ndarray) else min
        for latency_ns, ns_per_byte in self.others:
            minimum = least(minimum, latency_ns + ns_per_byte * payload_bytes)
        time_ns: float | NDArray[np.float64] = minimum
        return time_ns


FREE = CollectiveCost(latency_ns=0.0, ns_per_byte=0.0)


@dataclass(frozen=True, slots=True)
class ProtocolRates:
    """A protocol over the levels of a topology, slowest first: ns of a step, bytes/s of a device.

    start_between_ns: the time to fill the pipeline over all units of each level.
    in_switch_bytes_per_s: of all-reduces in the switch of the last level; 0 without one.
    """

    start_ns: float
    step_ns: tuple[float, ...]
    bytes_per_s: tuple[float, ...]
    start_between_ns: tuple[float, ...]
    in_switch_bytes_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Interconnect:
    """The links of a topology for collectives: one entry per level, slowest first.

    device_bytes_per_s: includes the calibration's link efficiency.
    all_to_all: whether all-to-alls are allowed; otherwise their time is infinite.
    refused: other kinds that are not allowed.
    between_stages: cost of a send to the next pipeline stage.
    fused: share of the latency of each collective in a fused bucket, by kind.
    protocols: of the device's curves; empty where links have only a latency and a bandwidth.
    by_kind: (kind, latency factor, time per byte factor), for kinds with fitted factors.
    rings, lines: levels that are dimensions of a torus, closed or open; empty without any.
    top_k: chosen experts of a token, where an all-to-all sends one copy to each unit; 0 where it
    sends one to each expert. most_units: of the outermost level that a token visits; 0: any number.
    """

    levels: tuple[str, ...]
    sizes: tuple[int, ...]
    device_bytes_per_s: tuple[float, ...]
    latency_ns: tuple[int, ...]
    full_mesh: tuple[bool, ...]
    all_to_all: bool = True
    refused: tuple[str, ...] = ()
    between_stages: CollectiveCost = FREE
    fused: tuple[tuple[str, float], ...] = ()
    protocols: tuple[ProtocolRates, ...] = ()
    by_kind: tuple[tuple[str, float, float], ...] = ()
    rings: tuple[bool, ...] = ()
    lines: tuple[bool, ...] = ()
    top_k: int = 0
    most_units: int = 0

    @classmethod
    def of(
        cls,
        topology: Topology,
        calibration: Calibration,
        *,
        all_to_all: bool = True,
        stage_link: Link | None = None,
    ) -> Interconnect:
        links = [level.link for level in topology.levels]
        rings = tuple(is_ring(link.kind) for link in links)
        lines = tuple(is_line(link.kind) for link in links)
        has_torus = any((*rings, *lines))
        curves = None if has_torus else rates_of(calibration, topology.device).curves
        return cls(
            levels=tuple(level.name for level in topology.levels),
            sizes=tuple(level.size for level in topology.levels),
            device_bytes_per_s=tuple(
                link.device_bytes_per_s * calibration.link_efficiency for link in links
            ),
            latency_ns=tuple(link.latency_ns for link in links),
            full_mesh=tuple(is_full_mesh(link.kind) for link in links),
            all_to_all=all_to_all,
            between_stages=FREE if stage_link is None else _send_cost(stage_link, calibration),
            protocols=() if curves is None else tuple(_protocol_rates(curves, links)),
            by_kind=() if curves is None else tuple(_kind_factors(curves)),
            rings=rings if has_torus else (),
            lines=lines if has_torus else (),
        )

    def extents(self, mesh: Mesh, axes: Collection[Axis]) -> Extents:
        """The extents of the groups over `axes`; LayoutError for an unknown axis or level."""
        mesh.size(axes)
        extents = dict.fromkeys(self.levels, 1)
        for axis in mesh.axes:
            if axis.name not in axes:
                continue
            if axis.level not in extents:
                raise LayoutError(
                    f"axis {axis.name!r} is in level {axis.level!r}, which the topology lacks; "
                    f"its levels are {', '.join(self.levels)}"
                )
            extents[axis.level] *= axis.size
        return tuple(extents.values())

    def extents_of(self, axes: Iterable[tuple[int, int]]) -> Extents:
        """The extents of the groups over axes of the form (position of the level, size)."""
        extents = [1] * len(self.levels)
        for level, size in axes:
            extents[level] *= size
        return tuple(extents)

    @property
    def protocol_rates(self) -> tuple[ProtocolRates, ...]:
        """The protocols, or one protocol of the plain links."""
        plain = tuple(float(latency_ns) for latency_ns in self.latency_ns)
        zeros = (0.0,) * len(plain)
        return self.protocols or (ProtocolRates(0.0, plain, self.device_bytes_per_s, zeros),)

    def group_bytes_per_s(self, bytes_per_s: float, level: int, extent: int) -> float:
        """Bandwidth of a device of `bytes_per_s` over a level, from extent - 1 other units."""
        if self.full_mesh[level]:
            return bytes_per_s * (extent - 1) / (self.sizes[level] - 1)
        if self.is_torus(level) and not self.is_ring(level, extent):
            return bytes_per_s / 2
        return bytes_per_s

    def is_torus(self, level: int) -> bool:
        """Whether the level is a dimension of a torus, closed or open."""
        return bool(self.rings) and (self.rings[level] or self.lines[level])

    def is_ring(self, level: int, extent: int) -> bool:
        """Whether `extent` units of the level form a ring."""
        return bool(self.rings) and self.rings[level] and extent == self.sizes[level]


@lru_cache(maxsize=65536)
def collective_cost(
    kind: Collective, extents: Extents, interconnect: Interconnect
) -> CollectiveCost:
    """The cost of one collective over one group, by an LRU cache."""
    assert len(extents) == len(interconnect.levels)
    return CollectiveCost.least_of(collective_lines(kind, extents, interconnect))


def collective_lines(
    kind: Collective, extents: Extents, interconnect: Interconnect
) -> list[tuple[float, float]]:
    """Latency in ns and time per byte in ns of a collective, for each protocol."""
    if all(extent == 1 for extent in extents):
        return [(0.0, 0.0)] * len(interconnect.protocol_rates)
    if kind in interconnect.refused or (kind == "all_to_all" and not interconnect.all_to_all):
        return [(math.inf, 0.0)] * len(interconnect.protocol_rates)
    fused = dict(interconnect.fused).get(kind, 1.0)
    lines = []
    for protocol in interconnect.protocol_rates:
        latency_ns, ns_per_byte = _line(kind, extents, protocol, interconnect)
        lines.append((latency_ns * fused, ns_per_byte))
    if kind == "all_reduce" and all(extent == 1 for extent in extents[:-1]):
        lines += [
            (fused * latency_ns, NS_PER_S / protocol.in_switch_bytes_per_s)
            for (latency_ns, _), protocol in zip(
                list(lines), interconnect.protocol_rates, strict=True
            )
            if protocol.in_switch_bytes_per_s
        ]
    for name, start, slope in interconnect.by_kind:
        if name == kind:
            return [(start * latency_ns, slope * ns_per_byte) for latency_ns, ns_per_byte in lines]
    return lines


def _line(
    kind: Collective, extents: Extents, protocol: ProtocolRates, interconnect: Interconnect
) -> tuple[float, float]:
    crossed = [level for level, extent in enumerate(extents) if extent > 1]
    if kind == "send":
        level = crossed[0]
        bytes_per_s = interconnect.group_bytes_per_s(protocol.bytes_per_s[level], level, 2)
        return protocol.start_ns + protocol.step_ns[level], NS_PER_S / bytes_per_s
    seconds_per_byte = max(_transfer_s_per_byte(kind, extents, protocol, interconnect))
    latency_ns = sum(
        _steps(level, extents[level], interconnect) * protocol.step_ns[level] for level in crossed
    )
    rounds = 2 if kind == "all_reduce" else 1
    start_ns = protocol.start_ns
    if kind != "all_to_all":
        start_ns += rounds * max(protocol.start_between_ns[level] for level in crossed)
    return start_ns + rounds * latency_ns, rounds * seconds_per_byte * NS_PER_S


def _transfer_s_per_byte(
    kind: Collective, extents: Extents, protocol: ProtocolRates, interconnect: Interconnect
) -> Iterator[float]:
    """Seconds per byte of the payload over each level that the group crosses; the dimensions of a
    torus count as one level, except for an all-to-all."""
    torus_bytes_per_s, torus, members = 0.0, 1, 1
    for level in reversed(range(len(extents))):
        extent = extents[level]
        if extent == 1:
            continue
        bytes_per_s = interconnect.group_bytes_per_s(protocol.bytes_per_s[level], level, extent)
        if not interconnect.is_torus(level):
            if kind == "all_to_all" and interconnect.top_k:
                share = routed_share(level, extents, interconnect.top_k, interconnect.most_units)
            else:
                share = port_share(kind, level, extents)
            yield share / bytes_per_s
            members *= extent if torus == 1 else 1
        elif kind == "all_to_all":
            yield extent / 4 / bytes_per_s
        else:
            torus_bytes_per_s += bytes_per_s
            torus *= extent
    if torus > 1:
        yield port_share(kind, 0, (torus, members)) / torus_bytes_per_s


def routed_share(level: int, extents: Extents, top_k: int, most_units: int = 0) -> float:
    """The share of the payload through one device's port of a level, if tokens travel once to each
    unit that they visit."""
    outermost = next(place for place, extent in enumerate(extents) if extent > 1)
    units = math.prod(extents[: level + 1])
    if most_units:
        units = min(units, most_units * math.prod(extents[outermost + 1 : level + 1]))
    visited = units * (1 - (1 - 1 / units) ** top_k)
    return visited / top_k * (extents[level] - 1) / extents[level]


def _steps(level: int, extent: int, interconnect: Interconnect) -> int:
    """The steps of a collective over a level."""
    if interconnect.is_ring(level, extent):
        return extent // 2
    return extent - 1 if interconnect.is_torus(level) else (extent - 1).bit_length()


@overload
def collective_ns(
    kind: Collective, extents: Extents, *, payload_bytes: float, interconnect: Interconnect
) -> float: ...
@overload
def collective_ns(
    kind: Collective, extents: Extents, *, payload_bytes: NDArray[Any], interconnect: Interconnect
) -> NDArray[np.float64]: ...
def collective_ns(
    kind: Collective,
    extents: Extents,
    *,
    payload_bytes: float | NDArray[Any],
    interconnect: Interconnect,
) -> float | NDArray[np.float64]:
    """Time of one collective in ns; an array of payloads gives an array of times."""
    return collective_cost(kind, extents, interconnect).ns(payload_bytes)


@overload
def port_share(kind: Collective, level: int, extents: Extents) -> float: ...
@overload
def port_share(
    kind: Collective, level: int, extents: tuple[NDArray[np.float64], ...]
) -> NDArray[np.float64]: ...
def port_share(
    kind: Collective, level: int, extents: Extents | tuple[NDArray[np.float64], ...]
) -> float | NDArray[np.float64]:
    """The share of the payload through one device's port of a level, elementwise for arrays.

    It is (g_l - 1) / (g_l m_l) for gathers and scatters; the table above lists all kinds.
    """
    extent: Any = extents[level]
    members: Any = math.prod(extents[level + 1 :])
    share: float | NDArray[np.float64]
    match kind:
        case "all_to_all":
            share = (extent - 1) * members / math.prod(extents)
        case "broadcast":
            share = 1 / members
        case _:
            share = (extent - 1) / (extent * members)
    return share


def _send_cost(link: Link, calibration: Calibration) -> CollectiveCost:
    wires = 2 if is_ring(link.kind) or is_line(link.kind) else 1  # a neighbor is behind one of two
    bytes_per_s = link.device_bytes_per_s / wires * calibration.link_efficiency
    return CollectiveCost(latency_ns=link.latency_ns, ns_per_byte=NS_PER_S / bytes_per_s)


def _kind_factors(curves: DeviceCurves) -> Iterator[tuple[str, float, float]]:
    return ((curve.name, curve.start.value, curve.slope.value) for curve in curves.collectives)


def _protocol_rates(curves: DeviceCurves, links: list[Link]) -> Iterator[ProtocolRates]:
    """The protocols of a device over its links; the last one uses in-switch reduction."""
    inside = [is_in_node(link.kind) for link in links]
    in_switch = 0.0
    if curves.in_switch is not None and is_reducing_switch(links[-1].kind):
        in_switch = curves.in_switch.value * links[-1].device_bytes_per_s
    for protocol in curves.protocols:
        steps, shares = (
            (protocol.step_between, protocol.step),
            (protocol.share_between, protocol.share),
        )
        yield ProtocolRates(
            protocol.start_ns.value,
            tuple(
                link.latency_ns * steps[is_inside].value
                for link, is_inside in zip(links, inside, strict=True)
            ),
            tuple(
                link.device_bytes_per_s * shares[is_inside].value
                for link, is_inside in zip(links, inside, strict=True)
            ),
            tuple(0.0 if is_inside else protocol.start_between_ns.value for is_inside in inside),
            in_switch if protocol is curves.protocols[-1] else 0.0,
        )
