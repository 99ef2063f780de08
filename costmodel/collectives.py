"""Collective time: latency of the steps + bytes over the links that the group really crosses.

A group is the product of some mesh axes. It is described by its extents, one for each level of the
topology, slowest first: the number of its members along that level.

    symbol   meaning                                                                   unit
    N        payload_bytes of one device: the gathered tensor (all_gather), the tensor  byte
             before the reduction (reduce_scatter, all_reduce), the device's part
             (all_to_all), the message (broadcast, send)
    g_l      extent of the group along level l
    n        product of all g_l: members of the group
    m_l      product of the g_j of the levels below l: members in one unit of level l
    b_l      bandwidth of one device into level l, one direction, while all its        byte/s
             neighbours communicate too: device_bytes_per_s * link_efficiency
    a_l      latency of one step over level l                                          ns
    s_l      steps over level l: ceil(log2 g_l), recursive doubling

    all_gather, reduce_scatter   t = sum_l s_l a_l + max_l N (g_l - 1) / (g_l m_l b_l)
    all_reduce                   t = reduce_scatter + all_gather
    all_to_all                   t = sum_l s_l a_l + max_l N (g_l - 1) m_l / (n b_l)
    broadcast                    t = sum_l s_l a_l + max_l N / (m_l b_l)
    send                         t = a_c + N / b_c with c the slowest level that is crossed

Sums and maxima run over the levels with g_l > 1; a group of one device costs nothing.

Protocols: where a calibration has curves of the device, each protocol p of its library gives a line
of its own, and the fastest is taken (so NCCL chooses among LL, LL128 and Simple):

    t = min_p (start_p + rounds fill_p + steps_p + N slope_p)

with step_p a_l for a_l, and share_p of the bare link for b_l. fill_p: where a collective goes from
node to node, until all of them have something to pass on; an all_reduce does so twice, and where
every pair exchanges directly (all_to_all, send) nothing has to fill. Where the
switch adds up (NVLS), an all-reduce inside a node has one line more: every device sends N and
receives N, at the share of the link that was measured. Where curves know a kind by itself, its
latencies and its times a byte are multiplied by what was fitted.

Why (g_l - 1) / (g_l m_l): gathered level by level, slowest level first, each unit of level l gets
1/g_l of what its parent needs by itself and the rest from its g_l - 1 siblings, and its m_l members
take it in through m_l ports at once. So a group across nodes has the speed of one network port
times its members in a node, and never more than the links inside the node can spread (the term of
the fastest level). The levels work as a pipeline, hence max and not sum. In an all_to_all every
pair exchanges N/n directly: (g_l - 1) m_l of the n partners of a device are reached over level l.

Full mesh: a link whose kind is in FULL_MESH_KINDS joins every pair of units by a wire of its own.
A group of g_l of the level's S_l units then has (g_l - 1) / (S_l - 1) of b_l, and a send one wire.
Every other kind is taken for a switch, which gives b_l to any group.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from costmodel.curves import rates_of
from meshwright.schema import Axis, Calibration, LayoutError, Link, Mesh, Topology
from meshwright.schema.curves import DeviceCurves

Collective = Literal[
    "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast", "send"
]
Extents = tuple[int, ...]

FULL_MESH_KINDS = frozenset({"hccs", "xgmi"})
SWITCH_KIND = "nvlink"  # of links whose switches may add up
# links of all other kinds are taken for a network
INSIDE_KINDS = FULL_MESH_KINDS | {"nvlink", "pcie", "host"}
NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """The time of one collective: the least of some straight lines over its payload.

    latency_ns, ns_per_byte: the first line's. others: (latency_ns, ns_per_byte) of more of them,
    each with a longer latency and fewer ns per byte than the one before.
    """

    latency_ns: float
    ns_per_byte: float
    others: tuple[tuple[float, float], ...] = ()

    @classmethod
    def least_of(cls, lines: Iterable[tuple[float, float]]) -> CollectiveCost:
        """Of lines in any order; those that are nowhere the only least may stay."""
        kept: list[tuple[float, float]] = []
        for latency_ns, ns_per_byte in sorted(lines):
            if not kept or ns_per_byte < kept[-1][1]:
                kept.append((latency_ns, ns_per_byte))
        return cls(*kept[0], tuple(kept[1:]))

    @property
    def lines(self) -> tuple[tuple[float, float], ...]:
        return ((self.latency_ns, self.ns_per_byte), *self.others)

    @property
    def large_ns_per_byte(self) -> float:
        """What a byte more of a large message takes."""
        return self.lines[-1][1]

    @overload
    def ns(self, payload_bytes: float) -> float: ...
    @overload
    def ns(self, payload_bytes: NDArray[Any]) -> NDArray[np.float64]: ...
    def ns(self, payload_bytes: float | NDArray[Any]) -> float | NDArray[np.float64]:
        """Time for one payload, or elementwise for an array of payloads."""
        if isinstance(payload_bytes, np.ndarray):
            payload_bytes = payload_bytes.astype(np.float64)
        found: Any = self.latency_ns + self.ns_per_byte * payload_bytes
        least = np.minimum if isinstance(payload_bytes, np.ndarray) else min
        for latency_ns, ns_per_byte in self.others:
            found = least(found, latency_ns + ns_per_byte * payload_bytes)
        kept: float | NDArray[np.float64] = found
        return kept


FREE = CollectiveCost(latency_ns=0.0, ns_per_byte=0.0)


@dataclass(frozen=True, slots=True)
class Sending:
    """A protocol over the levels of a topology, slowest first: ns of a step, bytes/s of a device.

    start_between_ns: by level, before what goes once through all units of it is under way.
    in_switch_bytes_per_s: of all-reduces that a switch adds up inside the last level, or nothing.
    """

    start_ns: float
    step_ns: tuple[float, ...]
    bytes_per_s: tuple[float, ...]
    start_between_ns: tuple[float, ...]
    in_switch_bytes_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Interconnect:
    """A topology's links as the collectives see them: one entry a level, slowest first.

    device_bytes_per_s has the calibration's link efficiency in it. all_to_all: whether there is
    one; where not it takes for ever. between_stages: of a send to the next pipeline stage. fused:
    by kind of collective the share of the latency that each pays, where several are sent as one.
    protocols: of the device's curves; none where links have their latency and bandwidth alone.
    by_kind: (kind, of its latency, of its time a byte), for kinds that curves know by themselves.
    """

    levels: tuple[str, ...]
    sizes: tuple[int, ...]
    device_bytes_per_s: tuple[float, ...]
    latency_ns: tuple[int, ...]
    full_mesh: tuple[bool, ...]
    all_to_all: bool = True
    between_stages: CollectiveCost = FREE
    fused: tuple[tuple[str, float], ...] = ()
    protocols: tuple[Sending, ...] = ()
    by_kind: tuple[tuple[str, float, float], ...] = ()

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
        curves = rates_of(calibration, topology.device).curves
        return cls(
            levels=tuple(level.name for level in topology.levels),
            sizes=tuple(level.size for level in topology.levels),
            device_bytes_per_s=tuple(
                link.device_bytes_per_s * calibration.link_efficiency for link in links
            ),
            latency_ns=tuple(link.latency_ns for link in links),
            full_mesh=tuple(link.kind in FULL_MESH_KINDS for link in links),
            all_to_all=all_to_all,
            between_stages=FREE if stage_link is None else _sent_over(stage_link, calibration),
            protocols=() if curves is None else tuple(_sendings(curves, links)),
            by_kind=() if curves is None else tuple(_by_kind(curves)),
        )

    def extents(self, mesh: Mesh, axes: Collection[Axis]) -> Extents:
        """The extents of the groups over `axes`; LayoutError for an axis or level not there."""
        mesh.size(axes)
        found = dict.fromkeys(self.levels, 1)
        for axis in mesh.axes:
            if axis.name not in axes:
                continue
            if axis.level not in found:
                raise LayoutError(
                    f"axis {axis.name!r} lies in level {axis.level!r}, which the topology has not; "
                    f"its levels are {', '.join(self.levels)}"
                )
            found[axis.level] *= axis.size
        return tuple(found.values())

    def extents_of(self, axes: Iterable[tuple[int, int]]) -> Extents:
        """The extents of the groups over axes given as (position of the level, size)."""
        found = [1] * len(self.levels)
        for level, size in axes:
            found[level] *= size
        return tuple(found)

    @property
    def sendings(self) -> tuple[Sending, ...]:
        """Its protocols, or the one that links themselves are."""
        plain = tuple(float(own) for own in self.latency_ns)
        nothing = (0.0,) * len(plain)
        return self.protocols or (Sending(0.0, plain, self.device_bytes_per_s, nothing),)

    def group_bytes_per_s(self, bytes_per_s: float, level: int, extent: int) -> float:
        """What one device, of so many bytes/s, gets over a level from extent - 1 other units."""
        if self.full_mesh[level]:
            return bytes_per_s * (extent - 1) / (self.sizes[level] - 1)
        return bytes_per_s


@lru_cache(maxsize=65536)
def collective_cost(
    kind: Collective, extents: Extents, interconnect: Interconnect
) -> CollectiveCost:
    """Latency and time per payload byte of one collective over one group. Cached."""
    assert len(extents) == len(interconnect.levels)
    return CollectiveCost.least_of(collective_lines(kind, extents, interconnect))


def collective_lines(
    kind: Collective, extents: Extents, interconnect: Interconnect
) -> list[tuple[float, float]]:
    """Latency and ns per byte of a collective, by each protocol."""
    if all(extent == 1 for extent in extents):
        return [(0.0, 0.0)] * len(interconnect.sendings)
    if kind == "all_to_all" and not interconnect.all_to_all:
        return [(math.inf, 0.0)] * len(interconnect.sendings)
    fused = dict(interconnect.fused).get(kind, 1.0)
    found = []
    for own in interconnect.sendings:
        latency_ns, ns_per_byte = _line(kind, extents, own, interconnect)
        found.append((latency_ns * fused, ns_per_byte))
    if kind == "all_reduce" and all(extent == 1 for extent in extents[:-1]):
        found += [
            (fused * latency_ns, NS_PER_S / own.in_switch_bytes_per_s)
            for (latency_ns, _), own in zip(list(found), interconnect.sendings, strict=True)
            if own.in_switch_bytes_per_s
        ]
    for name, start, slope in interconnect.by_kind:
        if name == kind:
            return [(start * latency_ns, slope * ns_per_byte) for latency_ns, ns_per_byte in found]
    return found


def _line(
    kind: Collective, extents: Extents, own: Sending, interconnect: Interconnect
) -> tuple[float, float]:
    crossed = [level for level, extent in enumerate(extents) if extent > 1]
    if kind == "send":
        level = crossed[0]
        bytes_per_s = interconnect.group_bytes_per_s(own.bytes_per_s[level], level, 2)
        return own.start_ns + own.step_ns[level], NS_PER_S / bytes_per_s
    seconds_per_byte = 0.0
    latency_ns = 0.0
    for level in crossed:
        extent = extents[level]
        bytes_per_s = interconnect.group_bytes_per_s(own.bytes_per_s[level], level, extent)
        seconds_per_byte = max(seconds_per_byte, port_share(kind, level, extents) / bytes_per_s)
        latency_ns += (extent - 1).bit_length() * own.step_ns[level]
    rounds = 2 if kind == "all_reduce" else 1
    start_ns = own.start_ns
    if kind != "all_to_all":
        start_ns += rounds * max(own.start_between_ns[level] for level in crossed)
    return start_ns + rounds * latency_ns, rounds * seconds_per_byte * NS_PER_S


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
    """Time of one collective; an array of payloads gives an array of times."""
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
    """The share of the payload that passes one device's port of a level, for arrays of groups too.

    (g_l - 1) / (g_l m_l) of what is gathered or scattered, and so on: the table above.
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


def _sent_over(link: Link, calibration: Calibration) -> CollectiveCost:
    bytes_per_s = link.device_bytes_per_s * calibration.link_efficiency
    return CollectiveCost(latency_ns=link.latency_ns, ns_per_byte=NS_PER_S / bytes_per_s)


def _by_kind(curves: DeviceCurves) -> Iterator[tuple[str, float, float]]:
    return ((own.name, own.start.value, own.slope.value) for own in curves.collectives)


def _sendings(curves: DeviceCurves, links: list[Link]) -> Iterator[Sending]:
    """The protocols of a device over its cluster's links; a switch adds up for the last of them."""
    inside = [link.kind in INSIDE_KINDS for link in links]
    in_switch = 0.0
    if curves.in_switch is not None and links[-1].kind == SWITCH_KIND:
        in_switch = curves.in_switch.value * links[-1].device_bytes_per_s
    for own in curves.protocols:
        steps, shares = (own.step_between, own.step), (own.share_between, own.share)
        yield Sending(
            own.start_ns.value,
            tuple(
                link.latency_ns * steps[near].value
                for link, near in zip(links, inside, strict=True)
            ),
            tuple(
                link.device_bytes_per_s * shares[near].value
                for link, near in zip(links, inside, strict=True)
            ),
            tuple(0.0 if near else own.start_between_ns.value for near in inside),
            in_switch if own is curves.protocols[-1] else 0.0,
        )
