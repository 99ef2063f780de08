"""What a calibration says that the devices and links of a topology keep of their data sheets.

    level    N p / t: of N bytes the share p passes a device's port (`port_share`, twice of an
             all-reduce): what NCCL's tests call bus bandwidth; kept is a large gather's
    product  2 s^3 / t: matrices of s x s
    memory   the data sheet's bandwidth times the share that memory-bound ops reach

t is what the judge takes: the same functions price plans.
"""

from __future__ import annotations

from costmodel.collectives import Collective, Extents, Interconnect, collective_ns, port_share
from costmodel.computable import computable
from costmodel.curves import Shape, rates_of
from costmodel.operators import op_ns
from meshwright.schema import DTYPE_BYTES, Calibration, Device, Level, Topology
from meshwright.schema.rates import (
    GroupRates,
    LevelRates,
    Passed,
    ProductRates,
    TopologyRates,
)

KINDS: tuple[Collective, ...] = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
PAYLOADS = tuple(2**power for power in range(10, 31))  # 1 KiB to 1 GiB
SIZES = tuple(2**power for power in range(7, 15))  # of squares, to those that reach the full share
NS_PER_S = 1e9


def rates_in(
    topology: Topology, calibration: Calibration, *, measured: bool = False
) -> TopologyRates:
    """The rates of every group. measured: whether the calibration was measured in the topology.

    InvalidInput of documents whose numbers nothing can be computed of.
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
                device.flops_per_s, key=lambda own: (-device.peak_flops_per_s(own), own)
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
    reached = []
    for size in SIZES:
        edge = float(size)
        flops = 2.0 * edge**3
        stretch = float(rates.stretch("matmul", Shape(1.0, edge, edge, edge), dtype))
        ns = op_ns(
            "matmul", flops * stretch, bytes_moved=3 * edge**2 * DTYPE_BYTES[dtype],
            dtype=dtype, device=device, calibration=calibration,
        )  # fmt: skip
        reached.append(flops / ns * NS_PER_S)
    return ProductRates(
        dtype=dtype,
        promised_flops_per_s=device.peak_flops_per_s(dtype),
        kept_flops_per_s=reached[-1],
        sizes=SIZES,
        flops_per_s=tuple(reached),
    )


def _level(level: Level, position: int, links: Interconnect) -> LevelRates:
    own = LevelRates(
        level=level.name,
        size=level.size,
        link=level.link.kind,
        promised_bytes_per_s=level.link.device_bytes_per_s,
        promised_latency_ns=level.link.latency_ns,
    )
    if level.size == 1:
        return own
    extents = tuple(level.size if at == position else 1 for at in range(len(links.levels)))
    passed = tuple(_passed(kind, position, extents, links) for kind in KINDS)
    gather = passed[KINDS.index("all_gather")]
    return own.like(
        kept_bytes_per_s=gather.bytes_per_s[-1], start_ns=gather.ns[0], collectives=passed
    )


def _passed(kind: Collective, level: int, extents: Extents, links: Interconnect) -> Passed:
    share = port_share(kind, level, extents) * (2 if kind == "all_reduce" else 1)
    times = tuple(
        float(collective_ns(kind, extents, payload_bytes=float(own), interconnect=links))
        for own in PAYLOADS
    )
    return Passed(
        kind=kind,
        payload_bytes=PAYLOADS,
        ns=times,
        bytes_per_s=tuple(
            own * share / ns * NS_PER_S for own, ns in zip(PAYLOADS, times, strict=True)
        ),
    )
