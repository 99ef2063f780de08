"""Preset topologies by name: `<device>-<nodes>x<devices per node>`, such as `h100-8x8`.

A preset is data: a device's data sheet (devices/*.json) in its usual server (nodes/*.json), or in
a pod (pods/*.json), whose slices are named by the sizes of a torus: `tpu-v5p-8x8x8`. One number
more stands for several slices in front: `tpu-v5p-2x8x8x8`. Levels of size 1 are omitted: `h100-1x8`
has the one level `gpu`. Several names joined by `+` are a mixed cluster, whose groups are connected
through the ports of their nodes. The JSON and docs/reference/topologies.md name every source.
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
from meshwright_costmodel.link_kinds import part_of_level

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
    "h20": ("h20", "hgx-h20"),
    "h800": ("h800", "hgx-h800"),
    "a800": ("a800", "hgx-a800"),
    "b300": ("b300", "dgx-b300"),
    "gb200": ("gb200", "gb200-nvl72"),
    "gb300": ("gb300", "gb300-nvl72"),
    "mi325x": ("mi325x", "mi300x-platform"),
    "mi355x": ("mi355x", "mi355x-platform"),
    "910c": ("910c", "cloudmatrix384"),
}
# Preset device -> the file of its data sheet, which is that of its pod too.
_PODS = ("tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7x")
_ALIASES: Mapping[str, str] = {
    "a100": "a100-80g",
    **{device.removeprefix("tpu-"): device for device in _PODS},
    "trillium": "tpu-v6e",
    "ironwood": "tpu-v7x",
}
_NAME = re.compile(r"(?P<device>[a-z0-9-]+)-(?P<sizes>[1-9][0-9]{0,8}(?:x[1-9][0-9]{0,8}){1,3})")


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


class PodPreset(Model):
    """A torus of devices, and the network between its slices.

    largest: the devices of a whole pod along each dimension. wire_bytes_per_s: of one wire in one
    direction; a device has two in every dimension. wraps_at: a dimension of a multiple of this many
    devices is closed to a ring; wraps_together: only if all dimensions are.
    """

    name: str
    largest: tuple[int, ...]
    wire_bytes_per_s: float
    latency_ns: int
    wraps_at: int
    wraps_together: bool
    between: Link
    source: str


class PresetDevice(Model):
    """A device that a preset name may begin with."""

    name: str = Field(description="The device in a preset name.")
    device: str = Field(description="The device as its vendor calls it.")
    memory_bytes: int = Field(description="The memory of a device, in bytes.")
    server: str = Field(description="The server or pod of the devices.")
    largest: tuple[int, ...] = Field(
        description="The devices of a full server, or of a whole pod along each dimension."
    )


def preset_devices() -> tuple[PresetDevice, ...]:
    """The devices of all presets, servers first."""
    servers = {name: (device, _node(node)) for name, (device, node) in _FILES.items()}
    return (
        *(
            _preset_device(name, device, node.name, (node.places,))
            for name, (device, node) in servers.items()
        ),
        *(_preset_device(name, name, _pod(name).name, _pod(name).largest) for name in _PODS),
    )


def _preset_device(name: str, file: str, server: str, largest: tuple[int, ...]) -> PresetDevice:
    device = _device(file)
    return PresetDevice(
        name=name,
        device=device.name,
        memory_bytes=device.memory_bytes,
        server=server,
        largest=largest,
    )


def presets() -> list[str]:
    """The devices that a preset name may begin with, without aliases."""
    return [*_FILES, *_PODS]


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
    sizes = [int(size) for size in match["sizes"].split("x")] if match else []
    if device_name in _PODS and sizes:
        return _slices(device_name, sizes, name)
    if len(sizes) != 2 or device_name not in _FILES:
        raise TopologyError(_unknown_name_message(name))
    nodes, devices = sizes
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


def _slices(device_name: str, sizes: list[int], name: str) -> tuple[Topology, Link]:
    """The topology of a slice, or of several equal ones, and the link between slices."""
    pod = _pod(device_name)
    dims = len(pod.largest)
    slices, torus = (sizes[0], sizes[1:]) if len(sizes) == dims + 1 else (1, sizes)
    torus = torus + [1] * (dims - len(torus))
    fits = zip(sorted(torus), sorted(pod.largest), strict=False)
    if len(torus) > dims or any(size > largest for size, largest in fits):
        largest = "x".join(map(str, pod.largest))
        raise TopologyError(
            f"topology preset {name[:80]!r}: a {pod.name} has {dims} dimensions of at most "
            f"{largest} devices. Write {device_name}-{largest}, or several slices as "
            f"{device_name}-2x{largest}"
        )
    closed = [size % pod.wraps_at == 0 for size in torus]
    if pod.wraps_together:
        closed = [all(closed)] * dims
    dimensions = [
        Level(
            name=dimension,
            size=size,
            link=Link(
                kind="torus" if wraps else "grid",
                bytes_per_s=2 * pod.wire_bytes_per_s,
                latency_ns=pod.latency_ns,
            ),
        )
        for dimension, size, wraps in zip("xyz", torus, closed, strict=False)
    ]
    levels = [Level(name="slice", size=slices, link=pod.between), *dimensions]
    nontrivial = [level for level in levels if level.size > 1] or levels[-1:]
    topology = Topology(
        name=f"{device_name}-{'x'.join(map(str, sizes))}",
        device=_device(device_name),
        levels=tuple(nontrivial),
        source=f"{pod.name}. {pod.source}",
    )
    return topology, pod.between


def _node_levels(node: ServerPreset, devices: int, name: str) -> list[Level]:
    """The levels of one node with `devices` devices, spread evenly over its boards."""
    *outer, inner = node.levels
    boards = outer[0].size if outer else 1
    for boards_used in range(1, boards + 1):
        if devices % boards_used == 0 and devices // boards_used <= inner.size:
            sizes = [boards_used, devices // boards_used][-len(node.levels) :]
            return [
                part_of_level(level, size) for level, size in zip(node.levels, sizes, strict=True)
            ]
    raise TopologyError(
        f"topology preset {name!r}: a node ({node.name}) cannot hold {devices} devices evenly; "
        f"1 to {inner.size}"
        + (f" or a multiple of {boards} up to {boards * inner.size}" if boards > 1 else "")
        + " will do. For other servers write the topology as JSON (docs/reference/topologies.md)"
    )


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
    known = [*_FILES, *_PODS, *_ALIASES]
    device_name = name.strip().lower().rpartition("-")[0]
    near = difflib.get_close_matches(device_name, known, n=1, cutoff=0.4) or known[:1]
    return (
        f"unknown topology preset {name[:80]!r}; a preset is <device>-<nodes>x<devices per node>, "
        f"for example '{near[0]}-8x8', for a TPU the sizes of its torus, or several joined by '+': "
        f"all counts at least 1 and the device one of {', '.join(known)}"
    )


@cache
def _device(file: str) -> Device:
    return Device.model_validate_json(_read("devices", file))


@cache
def _pod(file: str) -> PodPreset:
    return PodPreset.model_validate_json(_read("pods", file))


@cache
def _node(file: str) -> ServerPreset:
    return ServerPreset.model_validate_json(_read("nodes", file))


def _read(folder: str, file: str) -> bytes:
    return files("meshwright_costmodel").joinpath(folder, f"{file}.json").read_bytes()
