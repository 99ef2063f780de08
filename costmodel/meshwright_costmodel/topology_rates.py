"""Rates of a topology's devices and links by a calibration, next to their data sheets.

    level    N p / t: the share p of N bytes passes a device's port (`port_share`, twice for an
             all-reduce), the bus bandwidth of nccl-tests; kept is that of a large all-gather
    product  2 s^3 / t: matrices of s x s
    memory   the data sheet's bandwidth times the share that memory-bound ops reach

t is the time of the cost model that also evaluates plans.
"""

from __future__ import annotations

from meshwright.schema import DTYPE_BYTES, Calibration, Device, Level, Topology
from meshwright.schema.topology_rates import (
    GroupRates,
    LevelRates,
    Passed,
    ProductRates,
    TopologyRates,
)
from meshwright_costmodel.collectives import (
    Collective,
    Extents,
    Interconnect,
    collective_ns,
    port_share,
)
from meshwright_costmodel.curves import Shape, rates_of
from meshwright_costmodel.numeric_guard import computable
from meshwright_costmodel.operators import op_ns

KINDS: tuple[Collective, ...] = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
PAYLOADS = tuple(2**power for power in range(10, 31))  # 1 KiB to 1 GiB
SIZES = tuple(2**power for power in range(7, 15))  # of square products, up to the full share
NS_PER_S = 1e9


def rates_in(
    topology: Topology, calibration: Calibration, *, measured: bool = False
) -> TopologyRates:
    """The rates of every group of devices.

    `measured` marks a calibration that was measured on this topology. Raises InvalidInput for
    documents whose numbers overflow.
    """
    with computable("this topology by this calibration"):
        return TopologyRates(
            topology=topology.id,
            calibration=calibration.id,
            measured=measured,
            groups=tuple(_group(group, calibration) for group in topology.groups),
        )


def _group(topology: Topology, calibration: Calibration) -> GroupRates:
    device = topology.device
    rates = rates_of(calibration, device)
    curves = rates.curves
    links = Interconnect.of(topology, calibration)
    return GroupRates(
        device=device.name,
        devices=topology.device_count,
        curves=curves is not None,
        relative=_relative(calibration, device),
        launch_ns=calibration.launch_ns,
        promised_memory_bytes_per_s=device.memory_bytes_per_s,
        kept_memory_bytes_per_s=device.memory_bytes_per_s * rates.memory,
        products=tuple(
            _products(dtype, device, calibration)
            for dtype in sorted(
                device.flops_per_s, key=lambda name: (-device.peak_flops_per_s(name), name)
            )
        ),
        levels=tuple(
            _level(level, position, links) for position, level in enumerate(topology.levels)
        ),
    )


def _relative(calibration: Calibration, device: Device) -> str | None:
    curves = rates_of(calibration, device).curves
    if curves is None:
        return None
    return curves.relative or (curves.device if curves.device != device.name else None)


def _products(dtype: str, device: Device, calibration: Calibration) -> ProductRates:
    rates = rates_of(calibration, device)
    flops_per_s = []
    for size in SIZES:
        edge = float(size)
        flops = 2.0 * edge**3
        stretch = float(rates.stretch("matmul", Shape(1.0, edge, edge, edge), dtype))
        ns = op_ns(
            "matmul", flops * stretch, bytes_moved=3 * edge**2 * DTYPE_BYTES[dtype],
            dtype=dtype, device=device, calibration=calibration,
        )  # fmt: skip
        flops_per_s.append(flops / ns * NS_PER_S)
    return ProductRates(
        dtype=dtype,
        promised_flops_per_s=device.peak_flops_per_s(dtype),
        kept_flops_per_s=flops_per_s[-1],
        sizes=SIZES,
        flops_per_s=tuple(flops_per_s),
    )


def _level(level: Level, position: int, links: Interconnect) -> LevelRates:
    rates = LevelRates(
        level=level.name,
        size=level.size,
        link=level.link.kind,
        promised_bytes_per_s=level.link.device_bytes_per_s,
        promised_latency_ns=level.link.latency_ns,
    )
    if level.size == 1:
        return rates
    extents = tuple(level.size if at == position else 1 for at in range(len(links.levels)))
    passed = tuple(_collective_rates(kind, position, extents, links) for kind in KINDS)
    gather = passed[KINDS.index("all_gather")]
    return rates.like(
        kept_bytes_per_s=gather.bytes_per_s[-1], start_ns=gather.ns[0], collectives=passed
    )


def _collective_rates(
    kind: Collective, level: int, extents: Extents, links: Interconnect
) -> Passed:
    share = port_share(kind, level, extents) * (2 if kind == "all_reduce" else 1)
    times = tuple(
        float(collective_ns(kind, extents, payload_bytes=float(payload_bytes), interconnect=links))
        for payload_bytes in PAYLOADS
    )
    return Passed(
        kind=kind,
        payload_bytes=PAYLOADS,
        ns=times,
        bytes_per_s=tuple(
            payload_bytes * share / ns * NS_PER_S
            for payload_bytes, ns in zip(PAYLOADS, times, strict=True)
        ),
    )
