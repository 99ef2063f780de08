"""Links: the load of sends on the ports of a cluster, and the time of the busiest link.

    symbol   meaning                                                                   unit
    c        slowest level that a send crosses: its ends lie in different units of it
    B        bytes out of, or into, one port of level c, all sends together            byte
    b        bandwidth of the port, one direction: device_bytes_per_s * devices_per_port
    a        latency of one step over level c                                          ns

    t = sum over both waves of
            max over levels that are crossed of a  +  max over ports and directions of B / b

Ports are full duplex and all carry at the same time. The second wave forwards the data of the first
one and begins after it. A level's ports belong to its units. In a unit of several devices every
devices_per_port neighbors share one port; where units are single devices, so many of them share
one. In a full mesh (meshwright_costmodel.collectives) each port has one wire to every other unit,
with its share of b, and the busiest wire counts. A single send over a port of one device takes as
long as a `send` of meshwright_costmodel.collectives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Calibration, Topology
from meshwright.schema.transfer import BusiestLink
from meshwright.transfers.strides import strides
from meshwright_costmodel.collectives import NS_PER_S, Interconnect
from meshwright_solver.common.arrays import FloatArray, IntArray


class Wiring(Protocol):
    """The links under sends; levels are numbers, and so are wires, from 0 on each level."""

    @property
    def device_count(self) -> int: ...

    @property
    def levels(self) -> tuple[tuple[str, int], ...]:
        """Name and size of every level, slowest first."""
        ...

    @property
    def strides(self) -> tuple[int, ...]:
        """Devices in a unit of each level but the slowest, fastest first."""
        ...

    def crossed(self, source: IntArray, target: IntArray) -> IntArray:
        """The slowest level in which the two devices of each pair lie in different units."""
        ...

    def wire(self, level: int, device: IntArray, other: IntArray) -> IntArray:
        """The number of the wire by which each device reaches another one across a level."""
        ...

    def wires_bytes_per_s(self, level: int, count: int) -> FloatArray:
        """The bandwidth of each of the first `count` wires, in one direction."""
        ...

    def latency_ns(self, level: int) -> float: ...

    def busiest_link(self, level: int, wire: int, end: int, size: int) -> BusiestLink:
        """A wire, described by its device. end: 0 where `size` bytes leave the device."""
        ...

    def around(self, devices: IntArray) -> tuple[Cluster, int]:
        """The nested levels that contain some devices of one kind, and their first device."""
        ...


@dataclass(frozen=True)
class Cluster:
    """The links under all devices, numbered with the last level varying fastest."""

    links: Interconnect
    devices_per_port: tuple[int, ...]

    @classmethod
    def of(cls, topology: Topology, calibration: Calibration) -> Cluster:
        return cls(
            links=Interconnect.of(topology, calibration),
            devices_per_port=tuple(level.link.devices_per_port for level in topology.levels),
        )

    @property
    def device_count(self) -> int:
        return prod(self.links.sizes)

    @property
    def levels(self) -> tuple[tuple[str, int], ...]:
        return tuple(zip(self.links.levels, self.links.sizes, strict=True))

    @property
    def strides(self) -> tuple[int, ...]:
        return strides(self.links.sizes)

    def unit_devices(self, level: int) -> int:
        """The devices of one of the units that a level joins."""
        return prod(self.links.sizes[level + 1 :])

    def port(self, level: int, device: IntArray) -> IntArray:
        """The number of the port through which each device reaches other units of a level."""
        unit, sharing = self.unit_devices(level), self.devices_per_port[level]
        within = unit if unit >= sharing else unit * self.links.sizes[level]
        return device // within * -(-within // sharing) + device % within // sharing

    def wire(self, level: int, device: IntArray, other: IntArray) -> IntArray:
        """The number of the wire; with a switch the wire is the port itself."""
        port = self.port(level, device)
        if not self.links.full_mesh[level]:
            return port
        size = self.links.sizes[level]
        return port * size + other // self.unit_devices(level) % size

    def wire_bytes_per_s(self, level: int) -> float:
        """The bandwidth of a wire in one direction."""
        port = self.links.device_bytes_per_s[level] * self.devices_per_port[level]
        return port / (self.links.sizes[level] - 1) if self.links.full_mesh[level] else port

    def wires_bytes_per_s(self, level: int, count: int) -> FloatArray:
        return np.full(count, self.wire_bytes_per_s(level))

    def latency_ns(self, level: int) -> float:
        return self.links.latency_ns[level]

    def busiest_link(self, level: int, wire: int, end: int, size: int) -> BusiestLink:
        port = wire // self.links.sizes[level] if self.links.full_mesh[level] else wire
        devices: NDArray[np.int64] = np.arange(self.device_count)
        return BusiestLink(
            level=self.links.levels[level],
            device=int(np.flatnonzero(self.port(level, devices) == port)[0]),
            direction=("out", "in")[end],
            bytes=size,
        )

    def around(self, devices: IntArray) -> tuple[Cluster, int]:
        assert int(devices.max()) < self.device_count
        return self, 0

    def crossed(self, source: IntArray, target: IntArray) -> IntArray:
        levels = np.full(len(source), len(self.links.sizes) - 1)
        for level in range(len(self.links.sizes) - 2, -1, -1):
            unit = self.unit_devices(level)
            levels[source // unit != target // unit] = level
        return levels


@dataclass
class Loads:
    """The sum of bytes by device and by wire."""

    cluster: Wiring
    sent: FloatArray = field(init=False)
    received: FloatArray = field(init=False)
    kept: FloatArray = field(init=False)
    _wires: dict[tuple[int, int, int], FloatArray] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        count = self.cluster.device_count
        self.sent, self.received, self.kept = np.zeros(count), np.zeros(count), np.zeros(count)

    def keep(self, device: IntArray, size: IntArray) -> None:
        """Add bytes that stay on their device."""
        self.kept += np.bincount(device, size, minlength=len(self.kept))

    def add(self, source: IntArray, target: IntArray, size: IntArray, *, wave: int) -> None:
        """Add sends: sources and targets (different devices), and bytes."""
        self.sent += np.bincount(source, size, minlength=len(self.sent))
        self.received += np.bincount(target, size, minlength=len(self.received))
        crossed = self.cluster.crossed(source, target)
        for level in np.unique(crossed).tolist():
            at = crossed == level
            for end, (one, other) in enumerate(((source, target), (target, source))):
                wires = self.cluster.wire(level, one[at], other[at])
                new = np.bincount(wires, size[at]).astype(np.float64)
                old = self._wires.get((wave, level, end), np.zeros(0))
                longer, shorter = (old, new) if len(old) > len(new) else (new, old)
                longer[: len(shorter)] += shorter
                self._wires[wave, level, end] = longer

    def busiest(self) -> tuple[float, BusiestLink | None]:
        """The time of all sends in ns, and the link that is busy longest."""
        latency = dict.fromkeys((0, 1), 0.0)
        slowest = dict.fromkeys((0, 1), 0.0)
        longest, where = 0.0, None
        for (wave, level, end), load in self._wires.items():
            lasting = load / self.cluster.wires_bytes_per_s(level, len(load)) * NS_PER_S
            wire = int(lasting.argmax())
            ns = float(lasting[wire])
            latency[wave] = max(latency[wave], self.cluster.latency_ns(level))
            slowest[wave] = max(slowest[wave], ns)
            if ns > longest:
                longest, where = ns, (level, wire, end, round(load[wire]))
        if where is None:
            return 0.0, None
        ns = sum(latency.values()) + sum(slowest.values())
        return ns, self.cluster.busiest_link(*where)
