"""Predicted times of measured kernels and collectives."""

from __future__ import annotations

from meshwright.schema import Calibration, Device, OpClass
from meshwright.schema.samples import CollectiveSample, KernelKind, KernelSample
from meshwright_costmodel.collectives import CollectiveCost, Interconnect, collective_lines
from meshwright_costmodel.curves import Shape, rates_of
from meshwright_costmodel.operators import op_ns

CLASSES: dict[KernelKind, OpClass] = {
    "matmul": "matmul", "attention": "attention", "memory": "memory", "launch": "memory",
}  # fmt: skip


def kernel_sample_ns(sample: KernelSample, device: Device, calibration: Calibration) -> float:
    """The predicted time of a kernel on one device, in ns."""
    op_class = CLASSES[sample.kind]
    stretch = float(rates_of(calibration, device).stretch(op_class, _shape(sample), sample.dtype))
    return op_ns(
        op_class, sample.flops * stretch, bytes_moved=sample.bytes_moved, dtype=sample.dtype,
        device=device, calibration=calibration,
    )  # fmt: skip


def collective_sample_ns(sample: CollectiveSample, links: Interconnect) -> float:
    """The predicted time of a collective that runs in all groups at once, in ns."""
    lines = collective_lines(sample.kind, sample.extents, links)
    return CollectiveCost.least_of(lines).ns(float(sample.payload_bytes))


def _shape(sample: KernelSample) -> Shape | None:
    sizes = [float(size) for size in sample.shape]
    match sample.kind, sizes:
        case "matmul", [m, n, k]:
            return Shape(1.0, m, n, k)
        case "attention", [batch, heads, sequence, head_dim, _]:
            return Shape(batch * heads, sequence, sequence, head_dim)
        case _:
            return None
