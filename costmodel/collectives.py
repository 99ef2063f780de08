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
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Axis, Calibration, LayoutError, Link, Mesh, Topology

Collective = Literal[
    "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast", "send"
]
Extents = tuple[int, ...]

FULL_MESH_KINDS = frozenset({"hccs", "xgmi"})
NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """The time of one collective as a straight line over its payload."""

    latency_ns: float
    ns_per_byte: float

    @overload
    def ns(self, payload_bytes: float) -> float: ...
    @overload
    def ns(self, payload_bytes: NDArray[Any]) -> NDArray[np.float64]: ...
    def ns(self, payload_bytes: float | NDArray[Any]) -> float | NDArray[np.float64]:
        """Time for one payload, or elementwise for an array of payloads."""
        if isinstance(payload_bytes, np.ndarray):
            payload_bytes = payload_bytes.astype(np.float64)
        return self.latency_ns + self.ns_per_byte * payload_bytes


FREE = CollectiveCost(latency_ns=0.0, ns_per_byte=0.0)


@dataclass(frozen=True, slots=True)
class Interconnect:
    """A topology's links as the collectives see them: one entry a level, slowest first.

    device_bytes_per_s has the calibration's link efficiency in it. all_to_all: whether there is
    one; where not it takes for ever. between_stages: of a send to the next pipeline stage. fused:
    by kind of collective the share of the latency that each pays, where several are sent as one.
    """

    levels: tuple[str, ...]
    sizes: tuple[int, ...]
    device_bytes_per_s: tuple[float, ...]
    latency_ns: tuple[int, ...]
    full_mesh: tuple[bool, ...]
    all_to_all: bool = True
    between_stages: CollectiveCost = FREE
    fused: tuple[tuple[str, float], ...] = ()

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

    def group_bytes_per_s(self, level: int, extent: int) -> float:
        """What one device gets over a level from the extent - 1 other units of its group."""
        bytes_per_s = self.device_bytes_per_s[level]
        if self.full_mesh[level]:
            return bytes_per_s * (extent - 1) / (self.sizes[level] - 1)
        return bytes_per_s


@lru_cache(maxsize=65536)
def collective_cost(
    kind: Collective, extents: Extents, interconnect: Interconnect
) -> CollectiveCost:
    """Latency and time per payload byte of one collective over one group. Cached."""
    assert len(extents) == len(interconnect.levels)
    crossed = [level for level, extent in enumerate(extents) if extent > 1]
    if not crossed:
        return FREE
    if kind == "all_to_all" and not interconnect.all_to_all:
        return CollectiveCost(latency_ns=math.inf, ns_per_byte=0.0)
    if kind == "send":
        return _send(crossed[0], interconnect)
    seconds_per_byte = 0.0
    latency_ns = 0.0
    for level in crossed:
        extent = extents[level]
        device_bytes_per_s = interconnect.group_bytes_per_s(level, extent)
        share = port_share(kind, level, extents)
        seconds_per_byte = max(seconds_per_byte, share / device_bytes_per_s)
        latency_ns += (extent - 1).bit_length() * interconnect.latency_ns[level]
    latency_ns *= dict(interconnect.fused).get(kind, 1.0)
    rounds = 2 if kind == "all_reduce" else 1
    return CollectiveCost(
        latency_ns=rounds * latency_ns, ns_per_byte=rounds * seconds_per_byte * NS_PER_S
    )


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


def _send(level: int, interconnect: Interconnect) -> CollectiveCost:
    bytes_per_s = interconnect.group_bytes_per_s(level, 2)
    return CollectiveCost(
        latency_ns=interconnect.latency_ns[level], ns_per_byte=NS_PER_S / bytes_per_s
    )
