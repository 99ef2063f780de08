"""Predicted times of measured kernels and collectives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meshwright.schema import Calibration, Device, OpClass
from meshwright.schema.samples import CollectiveKind, CollectiveSample, KernelKind, KernelSample
from meshwright_costmodel.collectives import CollectiveCost, Extents, Interconnect, collective_lines
from meshwright_costmodel.curves import Shape, rates_of
from meshwright_costmodel.operators import op_ns

CLASSES: dict[KernelKind, OpClass] = {
    "matmul": "matmul", "attention": "attention", "memory": "memory", "launch": "memory",
}  # fmt: skip


def kernel_sample_ns(sample: KernelSample, device: Device, calibration: Calibration) -> float:
    """The predicted time of a single kernel on one device, in ns."""
    op_class, rates = CLASSES[sample.kind], rates_of(calibration, device)
    stretch = float(rates.kernel_stretch(op_class, _shape(sample), sample.dtype))
    return op_ns(
        op_class, sample.flops * stretch, bytes_moved=sample.bytes_moved, dtype=sample.dtype,
        device=device, calibration=calibration,
    )  # fmt: skip


def collective_samples_ns(
    samples: Sequence[CollectiveSample], links: Interconnect
) -> Iterator[float]:
    """The predicted times of collectives that run in all groups at once, in ns.

    The cost of a kind in a group is computed once for all payloads.
    """
    costs: dict[tuple[CollectiveKind, Extents], CollectiveCost] = {}
    for sample in samples:
        group = sample.kind, sample.extents
        if group not in costs:
            costs[group] = CollectiveCost.least_of(collective_lines(*group, links))
        yield costs[group].ns(float(sample.payload_bytes))


def _shape(sample: KernelSample) -> Shape | None:
    sizes = [float(size) for size in sample.shape]
    match sample.kind, sizes:
        case "matmul", [m, n, k]:
            return Shape(1.0, m, n, k)
        case "attention", [batch, heads, sequence, head_dim, _]:
            return Shape(batch * heads, sequence, sequence, head_dim)
        case _:
            return None
