"""Curves of a device: the stretch of arithmetic time in small shapes compared with large ones.

A product of `groups` times m x k by k x n takes as long as a larger product at the full share:

    stretch = (groups (m + h) (n + h) + fill) (k + h_k) / (groups m n k)

h is the padding of tiles at the edges. fill is a partial wave of tiles, which leaves
multiprocessors idle. h_k are the first and last steps along k, twice as many for 8-bit numbers.
Attention with `rows` queries has the stretch:

    stretch = (1 + h_rows / (rows + tile)) (1 + h_head / head) / (1 + h_head / 128)

A product whose columns or depth are no multiple of 16 bytes takes `misalignment` times as long:
libraries have other kernels for it (`_MISALIGNED`). Both the whole size and the part on a device
count.

Cutting a shape into p parts never decreases the stretch: the total time of p devices is at least
that of one. Lower bounds of steps rely on this (`solver/meshwright_solver/pipeline/step_bound.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import DTYPE_BYTES, Calibration, Device, OpClass
from meshwright.schema.curves import DeviceCurves, ProductCurve

FloatArray = NDArray[np.float64]
Sizes = float | FloatArray
HEAD = 128.0  # published: the head dimension that FlashAttention-2 (arXiv:2307.08691) is tuned for

# measured: one H100, PyTorch 2.11 (bench/data/gpu/h100/steps.jsonl): the three products of GPT-2's
# head, 50,257 columns, run at 96 to 147 TFLOP/s, those of BERT's, 30,522, at 246 to 264; aligned
# products of the size at 600 to 680. 8 bytes: chosen between. BLOOM's runs on A100 say 8 to 9 times
# for attention written out with heads of 108 and 150 (bench/data/steps_unfitted.csv.gz)
_MISALIGNED: Mapping[int, float] = {16: 1.0, 8: 1.5, 4: 2.5, 2: 5.0, 1: 5.0}
_BY_REMAINDER = np.array([_MISALIGNED[math.gcd(size_bytes, 16)] for size_bytes in range(16)])

# chosen: a tile of rows; a single query, as in generation, wastes at most one tile
ROWS = 64.0


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a product or of attention on one device, scalars or one entry per strategy.

    For attention, groups are heads, rows queries, columns keys, and depth the head dimension.
    """

    groups: Sizes
    rows: Sizes
    columns: Sizes
    depth: Sizes

    @property
    def of_left(self) -> Shape:
        """The product that computes the gradient of the left factor."""
        return Shape(self.groups, self.rows, self.depth, self.columns)

    @property
    def of_right(self) -> Shape:
        """The product that computes the gradient of the right factor."""
        return Shape(self.groups, self.depth, self.columns, self.rows)

    def and_others(self, *others: Shape) -> Shape:
        """This shape and the others, stacked on a new first dim for vectorized evaluation."""
        shapes = (self, *others)
        return Shape(
            np.array([shape.groups for shape in shapes]),
            np.array([shape.rows for shape in shapes]),
            np.array([shape.columns for shape in shapes]),
            np.array([shape.depth for shape in shapes]),
        )


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates of one device by a calibration.

    curves: of the device or its nearest relative; None for a calibration without curves. size: the
    device's peak over the relative's, which scales the fill.
    """

    calibration: Calibration
    curves: DeviceCurves | None
    size: float = 1.0

    @property
    def memory(self) -> float:
        """Share of the memory bandwidth."""
        if self.curves is None:
            return self.calibration.efficiency.memory
        return self.curves.memory.value

    def peak_share(self, op_class: OpClass, dtype: str) -> float:
        """Share of peak for large shapes in a training step."""
        if self.curves is None or op_class not in ("matmul", "attention"):
            share: float = getattr(self.calibration.efficiency, op_class)
            return share
        if op_class == "attention":
            return self.curves.attention.share.value
        product = self.curves.product
        eight_bit = product.eight_bit.value if DTYPE_BYTES[dtype] == 1 else 1.0
        return product.share.value * eight_bit * self.sustained(op_class, dtype)

    def sustained(self, op_class: OpClass, dtype: str) -> float:
        """Share of its rate as a single kernel that an op keeps in a training step."""
        if self.curves is None or op_class != "matmul":
            return 1.0
        product = self.curves.product
        kept = product.sustained_eight_bit if DTYPE_BYTES[dtype] == 1 else product.sustained
        return 1.0 if kept is None else kept.value

    def kernel_stretch(self, op_class: OpClass, shape: Shape | None, dtype: str) -> Sizes:
        """The stretch of a single kernel, whose rate is not that of a training step."""
        return self.stretch(op_class, shape, dtype) * self.sustained(op_class, dtype)

    def unhidden(self, op_class: OpClass) -> float:
        """Share of the shorter of arithmetic and memory traffic that does not overlap."""
        if self.curves is None or op_class != "matmul":
            return 0.0
        return self.curves.product.unhidden.value

    def stretch(self, op_class: OpClass, shape: Shape | None, dtype: str) -> Sizes:
        """Ratio of arithmetic time in this shape to the time at the full share."""
        if self.curves is None or shape is None:
            return 1.0
        if op_class == "attention":
            return _attention_stretch(self.curves, shape)
        assert op_class == "matmul"
        ends = 2.0 if DTYPE_BYTES[dtype] == 1 else 1.0
        return _product_stretch(self.curves.product, shape, size=self.size, ends=ends)

    def misalignment(self, dtype: str, sizes: Sequence[Sizes]) -> Sizes:
        """Ratio of the time of a product with these contiguous sizes to that of an aligned one."""
        if self.curves is None or DTYPE_BYTES[dtype] > 2:
            return 1.0
        worst: Sizes = 1.0
        for size in sizes:
            remainder = np.asarray(size, dtype=np.float64) * DTYPE_BYTES[dtype] % 16
            factor = _BY_REMAINDER[remainder.astype(np.intp)]
            # a mean of uneven parts has a fraction, and no alignment
            worst = np.maximum(worst, np.where(remainder % 1, 1.0, factor))
        return worst

    def group_launches(self, groups: Sizes, *, eight_bit: bool) -> FloatArray:
        """Launches of one product with a weight for each of `groups`, beside the op's own.

        One group is a plain product.
        """
        curve = None if self.curves is None else self.curves.product
        each = curve and (curve.group_launches_eight_bit if eight_bit else curve.group_launches)
        count = np.asarray(groups, dtype=np.float64)
        launches: FloatArray = np.where(count > 1, count * (each.value if each else 0.0), 0.0)
        return launches

    @property
    def attention_backward(self) -> float:
        """Ratio of the backward share of attention to the forward share."""
        return 1.0 if self.curves is None else self.curves.attention.backward.value


def rates_of(calibration: Calibration, device: Device) -> Rates:
    """The rates of a device, or of its relative in the calibration.

    The relative of a preset's device stands in relatives.json (chosen: its architecture, else its
    generation). The relative of any other device is the one of the nearest peak, of the same vendor
    (the first word of the name) if there is one.
    """
    if not calibration.curves:
        return Rates(calibration, None)
    for curves in calibration.curves:
        if curves.device == device.name:
            return Rates(calibration, curves)
    candidates = _relatives(calibration.curves, device.name)
    peak = device.peak_flops_per_s("bfloat16")
    nearest = min(candidates, key=lambda curves: abs(math.log(curves.flops_per_s / peak)))
    return Rates(calibration, nearest, peak / nearest.flops_per_s)


def _relatives(curves: Sequence[DeviceCurves], device: str) -> Sequence[DeviceCurves]:
    named = [each for each in curves if each.device == _named_relatives().get(device)]
    vendor = device.lower().split(maxsplit=1)[:1]
    same = [each for each in curves if each.device.lower().split(maxsplit=1)[:1] == vendor]
    return named or same or curves


@cache
def _named_relatives() -> Mapping[str, str]:
    data = files("meshwright_costmodel").joinpath("relatives.json").read_bytes()
    relatives: Mapping[str, str] = json.loads(data)
    return relatives


def _product_stretch(curve: ProductCurve, shape: Shape, *, size: float, ends: float) -> Sizes:
    half, depth = curve.half_tile.value, ends * curve.half_depth.value
    results = shape.groups * shape.rows * shape.columns
    padded = shape.groups * (shape.rows + half) * (shape.columns + half) + curve.fill.value * size
    return padded / results * (1.0 + depth / shape.depth)


def _attention_stretch(curves: DeviceCurves, shape: Shape) -> Sizes:
    curve = curves.attention
    rows_stretch = 1.0 + curve.half_rows.value / (shape.rows + ROWS)
    return (
        rows_stretch
        * (1.0 + curve.half_head.value / shape.depth)
        / (1.0 + curve.half_head.value / HEAD)
    )
