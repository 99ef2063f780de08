"""The cluster: devices in nested levels, from the slowest link to the fastest.

Most have one kind of device. A mixed cluster is several groups, each of one kind in levels of its
own, that reach each other by their uplinks.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from meshwright.schema.errors import TopologyError
from meshwright.schema.graph import DTYPE_BYTES
from meshwright.schema.model import Document, Line, Model, Number, Whole
from meshwright.schema.sizes import MAX_SIZE

MAX_DEVICES = 2**20  # chosen: ten times the largest cluster known in 2026
MAX_LEVELS = 8
MAX_GROUPS = 4  # chosen: every order of them is tried

LevelName = str


class Link(Model):
    """What a device sees when it talks to another unit of its level.

    bytes_per_s is one direction of one port; devices_per_port devices share the port, so that in a
    step in which all devices communicate each has bytes_per_s / devices_per_port.
    """

    kind: Line
    bytes_per_s: Number = Field(gt=0)
    latency_ns: Whole = Field(ge=0, le=MAX_SIZE)
    devices_per_port: Whole = Field(default=1, ge=1, le=MAX_SIZE)

    @property
    def device_bytes_per_s(self) -> float:
        """The share of one device while all its neighbours communicate too."""
        return self.bytes_per_s / self.devices_per_port


class Level(Model):
    """`size` units joined by `link`; a unit is the next level, or a device on the last."""

    name: LevelName
    size: Whole = Field(ge=1)
    link: Link


class Host(Model):
    """The share of one device of the machine it is plugged into, while all neighbours use theirs.

    memory_bytes, memory_bytes_per_s: of main memory. link: to the device.
    """

    name: Line
    memory_bytes: Whole = Field(gt=0, le=MAX_SIZE)
    memory_bytes_per_s: Number = Field(gt=0)
    link: Link
    source: str = ""


class Device(Model):
    """A device's data sheet. flops_per_s: dense peak by dtype of the multiplication."""

    name: Line
    memory_bytes: Whole = Field(gt=0, le=MAX_SIZE)
    memory_bytes_per_s: Number = Field(gt=0)
    flops_per_s: dict[str, Number]
    source: str = ""

    @model_validator(mode="after")
    def _valid(self) -> Device:
        for dtype, rate in self.flops_per_s.items():
            if dtype not in DTYPE_BYTES:
                raise TopologyError(
                    f"device {self.name!r}: unknown dtype {dtype!r} in flops_per_s; "
                    f"known are {', '.join(DTYPE_BYTES)}"
                )
            if rate <= 0:
                raise TopologyError(
                    f"device {self.name!r}: flops_per_s of {dtype} must be positive, got {rate}"
                )
        if "float32" not in self.flops_per_s:
            raise TopologyError(f"device {self.name!r}: flops_per_s needs at least float32")
        return self

    def peak_flops_per_s(self, dtype: str) -> float:
        """The peak for a dtype; where the sheet has none, that of the next wider one it has."""
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
    """Devices of one kind beside others; uplink: by which one of them reaches other groups."""

    device: Device
    levels: tuple[Level, ...]
    uplink: Link
    host: Host | None = None
    source: str = ""


class Topology(Document):
    """A cluster. Ranks count the devices with the last level varying fastest.

    host: None where it is not known; nothing is then offloaded. beside: other groups of a mixed
    cluster, whose ranks count on from those of the groups before; device, levels and host are those
    of the first. uplink: needed where there are others.
    """

    prefix: ClassVar[str] = "topo"
    error: ClassVar[type[TopologyError]] = TopologyError

    schema_version: Literal[1] = 1
    name: Line = ""
    device: Device
    levels: tuple[Level, ...]
    host: Host | None = None
    uplink: Link | None = None
    beside: tuple[DeviceGroup, ...] = ()
    source: str = ""

    @model_validator(mode="after")
    def _valid(self) -> Topology:
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
                "a topology with other groups beside its own says by which uplink its own devices "
                "reach them",
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
        """One topology for every kind of device; itself alone where it is not mixed."""
        if not self.beside:
            return (self,)
        own = self.model_copy(update={"name": self.device.name, "beside": ()})
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
        return (own, *others)

    @property
    def device_count(self) -> int:
        """Of all groups."""
        return sum(
            math.prod(level.size for level in levels)
            for levels in (self.levels, *(group.levels for group in self.beside))
        )


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
