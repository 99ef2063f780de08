"""Preset topologies by name: `<device>-<nodes>x<devices per node>`, such as `h100-8x8`.

A preset is data: a device's data sheet (devices/*.json) in its usual server (nodes/*.json). Levels
of size 1 are omitted: `h100-1x8` has the one level `gpu`. Several names joined by `+` are a mixed
cluster, whose groups are connected through the ports of their nodes. Every number has its source in
the JSON and in docs/topologies.md.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from math import prod

from pydantic import Field

from meshwright.schema import Device, DeviceGroup, Host, Level, Link, Model, Topology, TopologyError
from meshwright_costmodel.link_kinds import is_full_mesh

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


class ServerPreset(Model):
    """A server: the levels of its devices, slowest first, and the link to other servers.

    The bandwidth of a full mesh is that of all wires of a device in a full server. host: the memory
    of the whole server, and the link of one device; None where unknown.
    """

    name: str
    levels: tuple[Level, ...] = Field(min_length=1, max_length=2)
    between: Link
    host: Host | None = None
    source: str

    @property
    def places(self) -> int:
        """The number of devices of a full server."""
        return prod(level.size for level in self.levels)


def presets() -> list[str]:
    """The devices that a preset name may begin with, without aliases."""
    return list(_FILES)


def preset(name: str) -> Topology:
    """The topology of a preset name; TopologyError for an unknown name lists the valid ones."""
    first, *others = (_single_preset(part) for part in name.split("+"))
    if not others:
        return first[0]
    return Topology(
        name="+".join(topology.name for topology, _ in (first, *others)),
        device=first[0].device,
        levels=first[0].levels,
        host=first[0].host,
        uplink=first[1],
        beside=tuple(
            DeviceGroup(
                device=topology.device, levels=topology.levels, host=topology.host,
                uplink=uplink, source=topology.source,
            )
            for topology, uplink in others
        ),
        source=first[0].source,
    )  # fmt: skip


def _single_preset(name: str) -> tuple[Topology, Link]:
    """The topology of one kind of nodes, and the link between nodes."""
    match = _NAME.fullmatch(name.strip().lower())
    device_name = match["device"] if match else name
    device_name = _ALIASES.get(device_name, device_name)
    if match is None or device_name not in _FILES:
        raise TopologyError(_unknown_name_message(name))
    nodes, devices = int(match["nodes"]), int(match["devices"])
    device_file, node_file = _FILES[device_name]
    node = _node(node_file)
    between = _link_between(node, devices)
    levels = [
        Level(name="node", size=nodes, link=between),
        *_node_levels(node, devices, name),
    ]
    nontrivial = [level for level in levels if level.size > 1] or levels[-1:]
    topology = Topology(
        name=f"{device_name}-{nodes}x{devices}",
        device=_device(device_file),
        levels=tuple(nontrivial),
        host=_host_of_one(node),
        source=f"{node.name}. {node.source}",
    )
    return topology, between


def _node_levels(node: ServerPreset, devices: int, name: str) -> list[Level]:
    """The levels of one node with `devices` devices, spread evenly over its boards."""
    *outer, inner = node.levels
    boards = outer[0].size if outer else 1
    for boards_used in range(1, boards + 1):
        if devices % boards_used == 0 and devices // boards_used <= inner.size:
            sizes = [boards_used, devices // boards_used][-len(node.levels) :]
            return [_resize(level, size) for level, size in zip(node.levels, sizes, strict=True)]
    raise TopologyError(
        f"topology preset {name!r}: a node ({node.name}) cannot hold {devices} devices evenly; "
        f"1 to {inner.size}"
        + (f" or a multiple of {boards} up to {boards * inner.size}" if boards > 1 else "")
        + " will do. For other servers write the topology as JSON (docs/topologies.md)"
    )


def _resize(level: Level, size: int) -> Level:
    link = level.link
    if is_full_mesh(link.kind):
        wire_bytes_per_s = link.bytes_per_s / (level.size - 1)
        link = link.model_copy(update={"bytes_per_s": wire_bytes_per_s * max(size - 1, 1)})
    return Level(name=level.name, size=size, link=link)


def _host_of_one(node: ServerPreset) -> Host | None:
    """The host's share of one device of a full server."""
    if node.host is None:
        return None
    share = {
        "memory_bytes": node.host.memory_bytes // node.places,
        "memory_bytes_per_s": node.host.memory_bytes_per_s / node.places,
    }
    return node.host.model_copy(update=share)


def _link_between(node: ServerPreset, devices: int) -> Link:
    sharing = min(node.between.devices_per_port, devices)
    return node.between.model_copy(update={"devices_per_port": sharing})


def _unknown_name_message(name: str) -> str:
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
def _node(file: str) -> ServerPreset:
    return ServerPreset.model_validate_json(_read("nodes", file))


def _read(folder: str, file: str) -> bytes:
    return files("meshwright_costmodel").joinpath(folder, f"{file}.json").read_bytes()
