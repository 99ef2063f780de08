"""The links of a mixed cluster: those inside every group, and the uplinks between groups.

    level 0             between groups: every device's port is the uplink of its own group
    the levels behind   those of the first group, of the second, and so on

Data between groups leaves by the ports of one group and arrives by those of the other, so the
slower side counts (`links`). The network between groups is assumed to carry all that the ports
carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meshwright.schema import Calibration, Link, Topology
from meshwright.schema.transfer import BusiestLink
from meshwright.transfers.strides import strides_of_groups
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.layouts.transfers.links import Cluster, Wiring

BETWEEN = "group"  # the name of the level between groups


@dataclass(frozen=True)
class JoinedClusters:
    """Groups one behind the other, with consecutive device numbers."""

    groups: tuple[Cluster, ...]
    uplinks: tuple[Link, ...]
    link_efficiency: float

    @cached_property
    def _first(self) -> IntArray:
        """The first device of every group, then the number of devices."""
        return _offsets([group.device_count for group in self.groups])

    @cached_property
    def _first_level(self) -> IntArray:
        """The first level of every group; level 0 belongs to none."""
        return 1 + _offsets([len(group.levels) for group in self.groups])

    @cached_property
    def _ports(self) -> tuple[int, ...]:
        """The number of uplinks of each group."""
        return tuple(
            -(-group.device_count // uplink.devices_per_port)
            for group, uplink in zip(self.groups, self.uplinks, strict=True)
        )

    @property
    def device_count(self) -> int:
        return int(self._first[-1])

    @property
    def levels(self) -> tuple[tuple[str, int], ...]:
        inside = (level for group in self.groups for level in group.levels)
        return ((BETWEEN, len(self.groups)), *inside)

    @property
    def strides(self) -> tuple[int, ...]:
        return strides_of_groups([[size for _, size in group.levels] for group in self.groups])

    def _group_of(self, devices: IntArray) -> IntArray:
        return np.searchsorted(self._first, devices, side="right") - 1

    def crossed(self, source: IntArray, target: IntArray) -> IntArray:
        levels = np.zeros(len(source), dtype=np.int64)
        here, there = self._group_of(source), self._group_of(target)
        for number, group in enumerate(self.groups):
            in_group = (here == number) & (there == number)
            first = self._first[number]
            inside = group.crossed(source[in_group] - first, target[in_group] - first)
            levels[in_group] = self._first_level[number] + inside
        return levels

    def wire(self, level: int, device: IntArray, other: IntArray) -> IntArray:
        if level > 0:
            number, group_level = self._inside(level)
            first = int(self._first[number])
            return self.groups[number].wire(group_level, device - first, other - first)
        group = self._group_of(device)
        sharing = np.array([uplink.devices_per_port for uplink in self.uplinks])
        within: IntArray = (device - self._first[group]) // sharing[group]
        return _offsets(self._ports)[group] + within

    def wires_bytes_per_s(self, level: int, count: int) -> FloatArray:
        if level > 0:
            number, group_level = self._inside(level)
            return self.groups[number].wires_bytes_per_s(group_level, count)
        rates = [uplink.bytes_per_s * self.link_efficiency for uplink in self.uplinks]
        return np.repeat(rates, self._ports)[:count]

    def latency_ns(self, level: int) -> float:
        if level > 0:
            number, group_level = self._inside(level)
            return self.groups[number].latency_ns(group_level)
        return max(uplink.latency_ns for uplink in self.uplinks)

    def busiest_link(self, level: int, wire: int, end: int, size: int) -> BusiestLink:
        if level > 0:
            number, group_level = self._inside(level)
            link = self.groups[number].busiest_link(group_level, wire, end, size)
            return link.model_copy(update={"device": link.device + int(self._first[number])})
        ports = _offsets(self._ports)
        number = int(np.searchsorted(ports, wire, side="right")) - 1
        device = (wire - int(ports[number])) * self.uplinks[number].devices_per_port
        return BusiestLink(
            level=BETWEEN,
            device=int(self._first[number]) + device,
            direction=("out", "in")[end],
            bytes=size,
        )

    def around(self, devices: IntArray) -> tuple[Cluster, int]:
        number = int(self._group_of(devices[:1])[0])
        first = int(self._first[number])
        assert first <= int(devices.min()) <= int(devices.max()) < int(self._first[number + 1])
        return self.groups[number], first

    def _inside(self, level: int) -> tuple[int, int]:
        """The number of the group that a level belongs to, and the level's number there."""
        number = int(np.searchsorted(self._first_level, level, side="right")) - 1
        return number, level - int(self._first_level[number])


def _offsets(counts: Sequence[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def wiring_of(topology: Topology, calibration: Calibration) -> Wiring:
    """The links under all devices of a topology, of one kind or several kinds."""
    if not topology.beside:
        return Cluster.of(topology, calibration)
    uplinks = [group.uplink for group in topology.groups if group.uplink is not None]
    return JoinedClusters(
        tuple(Cluster.of(group, calibration) for group in topology.groups),
        tuple(uplinks),
        calibration.link_efficiency,
    )
