"""What a calibration says that measured kernels and collectives take."""

from __future__ import annotations

from costmodel.collectives import CollectiveCost, Interconnect, collective_lines
from costmodel.curves import Shape, rates_of
from costmodel.operators import op_ns
from meshwright.schema import Calibration, Device, OpClass
from meshwright.schema.samples import CollectiveSample, KernelKind, KernelSample

CLASSES: dict[KernelKind, OpClass] = {
    "matmul": "matmul", "attention": "attention", "memory": "memory", "launch": "memory",
}  # fmt: skip


def kernel_sample_ns(own: KernelSample, device: Device, calibration: Calibration) -> float:
    """Of a kernel on one device."""
    op_class = CLASSES[own.kind]
    stretch = float(rates_of(calibration, device).stretch(op_class, _shape(own), own.dtype))
    return op_ns(
        op_class, own.flops * stretch, bytes_moved=own.bytes_moved, dtype=own.dtype,
        device=device, calibration=calibration,
    )  # fmt: skip


def collective_sample_ns(own: CollectiveSample, links: Interconnect) -> float:
    """Of a collective in groups side by side."""
    lines = collective_lines(own.kind, own.extents, links)
    return CollectiveCost.least_of(lines).ns(float(own.payload_bytes))


def _shape(own: KernelSample) -> Shape | None:
    sizes = [float(size) for size in own.shape]
    match own.kind, sizes:
        case "matmul", [m, n, k]:
            return Shape(1.0, m, n, k)
        case "attention", [batch, heads, sequence, head_dim, _]:
            return Shape(batch * heads, sequence, sequence, head_dim)
        case _:
            return None
