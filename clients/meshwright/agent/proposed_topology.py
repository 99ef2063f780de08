"""Proposed topology: a preset for a known device, else from the measurements."""

from __future__ import annotations

import re
from collections.abc import Iterable

from meshwright.agent.accelerator import Accelerator
from meshwright.plugins.planner import preset
from meshwright.schema import Device, InvalidInput, Level, Link, MeshwrightError, Topology
from meshwright.schema.samples import CollectiveSample, KernelSample

# pattern of the driver's device name -> preset device
_PRESETS = (
    (r"\bA100\b.*40GB", "a100-40g"),
    (r"\bA100\b", "a100-80g"),
    (r"\bH200\b", "h200"),
    (r"\bH100\b", "h100"),
    (r"\bB200\b", "b200"),
    (r"\bV100\b", "v100"),
    (r"910B", "910b"),
    (r"910A|Ascend910\b", "910a"),
    (r"MI300X", "mi300x"),
)
NS_PER_S = 1e9
SOURCE = "measured by meshwright agent"


def propose(
    accelerator: Accelerator,
    sizes: tuple[int, int],
    *,
    kernels: Iterable[KernelSample],
    collectives: Iterable[CollectiveSample],
) -> Topology:
    """The topology of a measured cluster.

    Values without a data sheet are the best measured values. Processes on one CPU share its memory.
    """
    hosts, devices_per_host = sizes
    name = accelerator.name
    sized = (("host", "network", hosts), ("device", "host", devices_per_host))
    dims = [dim for dim in sized if dim[2] > 1]
    known_topology = _preset_or_none(name, f"{hosts}x{devices_per_host}")
    if known_topology is not None and len(known_topology.levels) == max(1, len(dims)):
        return known_topology
    collective_samples = tuple(collectives)
    levels = [
        Level(name=level, size=size, link=_link(place, kind, collective_samples))
        for place, (level, kind, size) in enumerate(dims)
    ]
    alone = Level(name="device", size=1, link=Link(kind="host", bytes_per_s=1.0, latency_ns=0))
    sharers = devices_per_host if accelerator.kind == "cpu" else 1
    device = _device(name, accelerator.memory_bytes // sharers, tuple(kernels))
    return Topology(
        name=f"{name} {hosts}x{devices_per_host}",
        device=device,
        levels=tuple(levels or [alone]),
        source=SOURCE,
    )


def _preset_or_none(name: str, counts: str) -> Topology | None:
    """The preset of a device for these counts, or None."""
    device = next(
        (preset_name for pattern, preset_name in _PRESETS if re.search(pattern, name)), None
    )
    if device is None:
        return None
    try:
        return preset(f"{device}-{counts}")
    except MeshwrightError:
        return None


def _device(name: str, memory_bytes: int, kernels: tuple[KernelSample, ...]) -> Device:
    rates: dict[str, float] = {}
    for sample in kernels:
        if sample.kind == "matmul":
            rates[sample.dtype] = max(
                rates.get(sample.dtype, 0.0), sample.flops / sample.ns * NS_PER_S
            )
    memory_rates = [
        sample.bytes_moved / sample.ns * NS_PER_S for sample in kernels if sample.kind == "memory"
    ]
    if not rates or not memory_rates:
        raise InvalidInput(
            "there are no samples of products or of memory to derive a device's peak from. "
            "Increase --seconds"
        )
    rates.setdefault("float32", max(rates.values()))
    return Device(
        name=name, memory_bytes=memory_bytes, memory_bytes_per_s=max(memory_rates),
        flops_per_s=rates,
        source=SOURCE,
    )  # fmt: skip


def _link(place: int, kind: str, collectives: tuple[CollectiveSample, ...]) -> Link:
    """The highest bandwidth and lowest step latency of all-gathers along one level."""
    bytes_per_s, latency = 0.0, float("inf")
    for sample in collectives:
        extent = sample.extents[place]
        if sample.kind == "all_gather" and extent > 1 and _is_along(sample.extents, place):
            port_bytes = sample.payload_bytes * (extent - 1) / extent
            bytes_per_s = max(bytes_per_s, port_bytes / sample.ns * NS_PER_S)
            latency = min(latency, sample.ns / (extent - 1).bit_length())
    return Link(
        kind=kind,
        bytes_per_s=bytes_per_s or 1.0,
        latency_ns=round(latency) if bytes_per_s else 0,
    )


def _is_along(extents: tuple[int, ...], place: int) -> bool:
    return all(extent == 1 for at, extent in enumerate(extents) if at != place)
