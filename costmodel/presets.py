"""Preset topologies by name: `<device>-<nodes>x<devices per node>`, e.g. `h100-8x8`.

A preset is data: a device's data sheet (devices/*.json) in the server it is usually sold in
(nodes/*.json), as many of them as the name says. Levels of size 1 are left out, so `h100-1x8` has
the one level `gpu`. Several names joined by `+` are a mixed cluster, whose groups reach each other
through the ports by which their nodes reach one another. Every number names its source in the JSON
and in docs/topologies.md.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from math import prod

from pydantic import Field

from costmodel.collectives import FULL_MESH_KINDS
from meshwright.schema import Device, DeviceGroup, Host, Level, Link, Model, Topology, TopologyError

# Preset device -> the file of its data sheet and the file of its server.
_FILES: Mapping[str, tuple[str, str]] = {
    "h100": ("h100", "dgx-h100"),
    "h200": ("h200", "dgx-h100"),
    "b200": ("b200", "dgx-b200"),
    "a100-40g": ("a100-40g", "dgx-a100"),
    "a100-80g": ("a100-80g", "dgx-a100"),
    "v100": ("v100", "dgx-v100"),
    "910a": ("910a", "atlas-800"),
    "910b": ("910b", "atlas-800t-a2"),
    "mi300x": ("mi300x", "mi300x-platform"),
}
_ALIASES: Mapping[str, str] = {"a100": "a100-80g"}
_NAME = re.compile(
    r"(?P<device>[a-z0-9-]+)-(?P<nodes>[1-9][0-9]{0,8})x(?P<devices>[1-9][0-9]{0,8})"
)


class Node(Model):
    """A server: what joins its devices, slowest level first, and what joins it to others.

    The bandwidth of a full mesh counts all wires of a device when the server is full. host: memory
    of the whole server, and the link of one device; None where no document says.
    """

    name: str
    levels: tuple[Level, ...] = Field(min_length=1, max_length=2)
    between: Link
    host: Host | None = None
    source: str

    @property
    def places(self) -> int:
        """How many devices a full server has."""
        return prod(level.size for level in self.levels)


def presets() -> list[str]:
    """The devices that a preset name may begin with, without aliases."""
    return list(_FILES)


def preset(name: str) -> Topology:
    """The topology of a preset name; TopologyError names what was found and what would do."""
    first, *others = (_of_one_kind(part) for part in name.split("+"))
    if not others:
        return first[0]
    return Topology(
        name="+".join(own.name for own, _ in (first, *others)),
        device=first[0].device,
        levels=first[0].levels,
        host=first[0].host,
        uplink=first[1],
        beside=tuple(
            DeviceGroup(
                device=own.device, levels=own.levels, host=own.host, uplink=uplink,
                source=own.source,
            )
            for own, uplink in others
        ),
        source=first[0].source,
    )  # fmt: skip


def _of_one_kind(name: str) -> tuple[Topology, Link]:
    """Nodes of one kind, and what joins one to others."""
    found = _NAME.fullmatch(name.strip().lower())
    device_name = found["device"] if found else name
    device_name = _ALIASES.get(device_name, device_name)
    if found is None or device_name not in _FILES:
        raise TopologyError(_unknown(name))
    nodes, devices = int(found["nodes"]), int(found["devices"])
    device_file, node_file = _FILES[device_name]
    node = _node(node_file)
    between = _between(node, devices)
    levels = [
        Level(name="node", size=nodes, link=between),
        *_inside(node, devices, name),
    ]
    kept = [level for level in levels if level.size > 1] or levels[-1:]
    made = Topology(
        name=f"{device_name}-{nodes}x{devices}",
        device=_device(device_file),
        levels=tuple(kept),
        host=_host_of_one(node),
        source=f"{node.name}. {node.source}",
    )
    return made, between


def _inside(node: Node, devices: int, name: str) -> list[Level]:
    """The levels of one node in which `devices` places are taken, spread evenly over its boards."""
    *outer, inner = node.levels
    boards = outer[0].size if outer else 1
    for taken in range(1, boards + 1):
        if devices % taken == 0 and devices // taken <= inner.size:
            sizes = [taken, devices // taken][-len(node.levels) :]
            return [_resized(level, size) for level, size in zip(node.levels, sizes, strict=True)]
    raise TopologyError(
        f"topology preset {name!r}: a node ({node.name}) cannot hold {devices} devices evenly; "
        f"1 to {inner.size}"
        + (f" or a multiple of {boards} up to {boards * inner.size}" if boards > 1 else "")
        + " will do. For other servers write the topology as JSON (docs/topologies.md)"
    )


def _resized(level: Level, size: int) -> Level:
    link = level.link
    if link.kind in FULL_MESH_KINDS:
        wire_bytes_per_s = link.bytes_per_s / (level.size - 1)
        link = link.model_copy(update={"bytes_per_s": wire_bytes_per_s * max(size - 1, 1)})
    return Level(name=level.name, size=size, link=link)


def _host_of_one(node: Node) -> Host | None:
    """An equal share for every place, taken or not."""
    if node.host is None:
        return None
    share = {
        "memory_bytes": node.host.memory_bytes // node.places,
        "memory_bytes_per_s": node.host.memory_bytes_per_s / node.places,
    }
    return node.host.model_copy(update=share)


def _between(node: Node, devices: int) -> Link:
    sharing = min(node.between.devices_per_port, devices)
    return node.between.model_copy(update={"devices_per_port": sharing})


def _unknown(name: str) -> str:
    known = [*_FILES, *_ALIASES]
    device_name = name.strip().lower().rpartition("-")[0]
    near = difflib.get_close_matches(device_name, known, n=1, cutoff=0.4) or known[:1]
    return (
        f"unknown topology preset {name[:80]!r}; a preset is <device>-<nodes>x<devices per node>, "
        f"for example '{near[0]}-8x8', or several joined by '+': both counts at least 1 and the "
        f"device one of {', '.join(known)}"
    )


@cache
def _device(file: str) -> Device:
    return Device.model_validate_json(_read("devices", file))


@cache
def _node(file: str) -> Node:
    return Node.model_validate_json(_read("nodes", file))


def _read(folder: str, file: str) -> bytes:
    return files("costmodel").joinpath(folder, f"{file}.json").read_bytes()
