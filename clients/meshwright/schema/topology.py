"""The topology of a cluster: devices in nested levels, from the slowest link to the fastest.

Most clusters have one kind of device. A mixed cluster has several groups of one kind each. Every
group has its own levels, and uplinks connect the groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from meshwright.schema.errors import TopologyError
from meshwright.schema.graph import DTYPE_BYTES
from meshwright.schema.model import Document, Line, Model, Number, Whole
from meshwright.schema.sizes import MAX_SIZE

if TYPE_CHECKING:
    import networkx as nx

MAX_DEVICES = 2**20  # chosen: ten times the largest cluster known in 2026
MAX_LEVELS = 8
MAX_GROUPS = 4  # chosen: the search tries every order of groups

LevelName = str


class Link(Model):
    """A link between a device and the other units of its level.

    If all devices communicate, each has `bytes_per_s / devices_per_port`.
    """

    kind: Line = Field(description="The kind of the link.")
    bytes_per_s: Number = Field(
        gt=0, description="The bandwidth of one port in one direction, in bytes per second."
    )
    latency_ns: Whole = Field(ge=0, le=MAX_SIZE, description="The latency in nanoseconds.")
    devices_per_port: Whole = Field(
        default=1, ge=1, le=MAX_SIZE, description="The number of devices that share a port."
    )

    @property
    def device_bytes_per_s(self) -> float:
        """The bandwidth of one device while all of its neighbors communicate, in bytes per
        second."""
        return self.bytes_per_s / self.devices_per_port


class Level(Model):
    """A level of the topology: units that a link connects."""

    name: LevelName = Field(description="The name of the level, an identifier.")
    size: Whole = Field(
        ge=1,
        description="The number of units. A unit is the next level, or a device on the last level.",
    )
    link: Link = Field(description="The link between the units.")


class Host(Model):
    """The share of a host that one device has if all devices of the host use theirs."""

    name: Line = Field(description="The name of the host.")
    memory_bytes: Whole = Field(gt=0, le=MAX_SIZE, description="The main memory in bytes.")
    memory_bytes_per_s: Number = Field(
        gt=0, description="The bandwidth of the main memory in bytes per second."
    )
    link: Link = Field(description="The link between the device and the host.")
    source: str = Field(default="", description="The source of the numbers.")


class Device(Model):
    """A device, described by its data sheet."""

    name: Line = Field(description="The name of the device.")
    memory_bytes: Whole = Field(gt=0, le=MAX_SIZE, description="The device memory in bytes.")
    memory_bytes_per_s: Number = Field(
        gt=0, description="The bandwidth of the device memory in bytes per second."
    )
    flops_per_s: dict[str, Number] = Field(
        description="The dense peak FLOP/s of products, by dtype."
    )
    source: str = Field(default="", description="The source of the numbers.")

    @model_validator(mode="after")
    def _check(self) -> Device:
        for dtype, rate in self.flops_per_s.items():
            if dtype not in DTYPE_BYTES:
                raise TopologyError(
                    f"device {self.name!r}: unknown dtype {dtype!r} in flops_per_s. "
                    f"Use {', '.join(DTYPE_BYTES)}"
                )
            if rate <= 0:
                raise TopologyError(
                    f"device {self.name!r}: flops_per_s of {dtype} must be positive, got {rate}"
                )
        if "float32" not in self.flops_per_s:
            raise TopologyError(f"device {self.name!r}: flops_per_s needs at least float32")
        return self

    def peak_flops_per_s(self, dtype: str) -> float:
        """The peak FLOP/s of a dtype, or that of the next wider dtype of the data sheet."""
        wider = {
            "float8_e4m3": "bfloat16",
            "float8_e5m2": "bfloat16",
            "bfloat16": "float16",
            "float16": "float32",
        }
        while dtype not in self.flops_per_s:
            dtype = wider.get(dtype, "float32")
        return self.flops_per_s[dtype]


class DeviceGroup(Model):
    """A further group of equal devices in a mixed cluster."""

    device: Device = Field(description="The device.")
    levels: tuple[Level, ...] = Field(description="The levels of the group, slowest first.")
    uplink: Link = Field(
        description="The link by which a device of the group reaches other groups."
    )
    host: Host | None = Field(
        default=None, description="The share of a host that one device has. None: unknown."
    )
    source: str = Field(default="", description="The source of the numbers.")


class Topology(Document):
    """A cluster topology. Ranks count the devices with the last level varying fastest."""

    prefix: ClassVar[str] = "topo"
    error: ClassVar[type[TopologyError]] = TopologyError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    name: Line = Field(default="", description="The name of the topology.")
    device: Device = Field(description="The device of the first group.")
    levels: tuple[Level, ...] = Field(description="The levels of the first group, slowest first.")
    host: Host | None = Field(
        default=None,
        description="The share of a host that one device of the first group has. None: unknown, "
        "so that plans have no offload.",
    )
    uplink: Link | None = Field(
        default=None,
        description="The link by which a device of the first group reaches other groups. Required "
        "in a mixed cluster.",
    )
    beside: tuple[DeviceGroup, ...] = Field(
        default=(),
        description="The other groups of a mixed cluster. Their ranks follow those of the groups "
        "before.",
    )
    source: str = Field(default="", description="The source of the numbers.")

    @model_validator(mode="after")
    def _check(self) -> Topology:
        _check_levels(self.levels)
        for position, group in enumerate(self.beside):
            _check_levels(group.levels, f"/beside/{position}")
        if len(self.beside) >= MAX_GROUPS:
            raise TopologyError(
                f"a topology has at most {MAX_GROUPS} groups, got {len(self.beside) + 1}",
                pointer="/beside",
            )
        if self.beside and self.uplink is None:
            raise TopologyError(
                "a topology with several groups needs an uplink. Add the link by which devices of "
                "the first group reach the others",
                pointer="/uplink",
            )
        if self.device_count > MAX_DEVICES:
            raise TopologyError(
                f"a topology has at most {MAX_DEVICES:,} devices, got {self.device_count:,}",
                pointer="/levels",
            )
        return self

    @property
    def groups(self) -> tuple[Topology, ...]:
        """One topology for every group of devices; the topology itself if it is not mixed."""
        if not self.beside:
            return (self,)
        first = self.model_copy(update={"name": self.device.name, "beside": ()})
        others = (
            Topology(
                name=group.device.name,
                device=group.device,
                levels=group.levels,
                host=group.host,
                uplink=group.uplink,
                source=group.source,
            )
            for group in self.beside
        )
        return (first, *others)

    @property
    def device_count(self) -> int:
        """The number of devices of all groups."""
        return sum(
            math.prod(level.size for level in levels)
            for levels in (self.levels, *(group.levels for group in self.beside))
        )

    def _html_rows(self) -> Iterator[tuple[str, str]]:
        yield "id", self.id
        yield "name", self.name
        yield "devices", f"{self.device_count:,}"
        for group in self.groups:
            device = group.device
            yield "device", f"{device.name}, {device.memory_bytes / 2**30:,.1f} GiB"
            for level in group.levels:
                link = level.link
                rate = f"{link.bytes_per_s / 1e9:,.1f} GB/s, {link.latency_ns / 1e3:,.1f} µs"
                yield f"level {level.name}", f"{level.size} by {link.kind}: {rate}"

    def to_networkx(self) -> nx.Graph:
        """The topology as a networkx tree with devices as leaves.

        Raises Unavailable if networkx (the extra `graphs`) is not installed.

        Attributes: `meshwright.schema.networkx_graphs.topology_to_networkx`.
        """
        from meshwright.schema.networkx_graphs import topology_to_networkx  # imports this module

        return topology_to_networkx(self)


def _check_levels(levels: tuple[Level, ...], within: str = "") -> None:
    if not 1 <= len(levels) <= MAX_LEVELS:
        raise TopologyError(
            f"a topology has 1 to {MAX_LEVELS} levels, got {len(levels)}",
            pointer=f"{within}/levels",
        )
    names = [level.name for level in levels]
    for position, name in enumerate(names):
        if not name.isidentifier():
            raise TopologyError(
                f"level name {name!r} must be an identifier such as 'node'",
                pointer=f"{within}/levels/{position}/name",
            )
        if names.index(name) < position:
            raise TopologyError(
                f"level {name!r} is listed twice", pointer=f"{within}/levels/{position}/name"
            )
