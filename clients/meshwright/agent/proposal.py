"""The topology that was found: of a preset where the device is known, else as measured."""

from __future__ import annotations

import re
from collections.abc import Iterable

from meshwright.agent.accelerator import Accelerator
from meshwright.planner import preset
from meshwright.schema import Device, InvalidInput, Level, Link, MeshwrightError, Topology
from meshwright.schema.samples import CollectiveSample, KernelSample

# a device's own name -> the preset's
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
    """Hosts of devices; what no data sheet says is the best that was measured.

    Processes that measure one CPU share its memory.
    """
    hosts, each = sizes
    name = accelerator.name
    sized = (("host", "network", hosts), ("device", "host", each))
    joined = [own for own in sized if own[2] > 1]
    known = _known(name, f"{hosts}x{each}")
    if known is not None and len(known.levels) == max(1, len(joined)):
        return known
    found = tuple(collectives)
    levels = [
        Level(name=own, size=size, link=_link(place, kind, found))
        for place, (own, kind, size) in enumerate(joined)
    ]
    alone = Level(name="device", size=1, link=Link(kind="host", bytes_per_s=1.0, latency_ns=0))
    shared = each if accelerator.kind == "cpu" else 1
    device = _device(name, accelerator.memory_bytes // shared, tuple(kernels))
    return Topology(
        name=f"{name} {hosts}x{each}", device=device, levels=tuple(levels or [alone]), source=SOURCE
    )


def _known(name: str, counts: str) -> Topology | None:
    """The preset of a device, where there is one and its servers hold so many."""
    device = next((own for pattern, own in _PRESETS if re.search(pattern, name)), None)
    if device is None:
        return None
    try:
        return preset(f"{device}-{counts}")
    except MeshwrightError:
        return None


def _device(name: str, memory_bytes: int, kernels: tuple[KernelSample, ...]) -> Device:
    rates: dict[str, float] = {}
    for own in kernels:
        if own.kind == "matmul":
            rates[own.dtype] = max(rates.get(own.dtype, 0.0), own.flops / own.ns * NS_PER_S)
    moved = [own.bytes_moved / own.ns * NS_PER_S for own in kernels if own.kind == "memory"]
    if not rates or not moved:
        raise InvalidInput(
            "nothing was measured of products, or of memory, from which a device's peak could be "
            "taken: give it more --seconds"
        )
    rates.setdefault("float32", max(rates.values()))
    return Device(
        name=name, memory_bytes=memory_bytes, memory_bytes_per_s=max(moved), flops_per_s=rates,
        source=SOURCE,
    )  # fmt: skip


def _link(place: int, kind: str, collectives: tuple[CollectiveSample, ...]) -> Link:
    """The best bandwidth of one device, and the shortest step, of gathers along one level."""
    bytes_per_s, latency = 0.0, float("inf")
    for own in collectives:
        extent = own.extents[place]
        if own.kind == "all_gather" and extent > 1 and _along(own.extents, place):
            taken = own.payload_bytes * (extent - 1) / extent
            bytes_per_s = max(bytes_per_s, taken / own.ns * NS_PER_S)
            latency = min(latency, own.ns / (extent - 1).bit_length())
    return Link(
        kind=kind,
        bytes_per_s=bytes_per_s or 1.0,
        latency_ns=round(latency) if bytes_per_s else 0,
    )


def _along(extents: tuple[int, ...], place: int) -> bool:
    return all(extent == 1 for at, extent in enumerate(extents) if at != place)
