"""Curves of a device: how much longer arithmetic takes in small shapes than in large ones.

A product of `groups` times m x k by k x n takes as long as one that is larger, at the full share:

    stretch = (groups (m + h) (n + h) + fill) (k + h_k) / (groups m n k)

h: what tiles take beyond the edges; fill: a part of a wave of tiles, with few of which
multiprocessors stand idle; h_k: first and last steps along k, which take a time: twice as many of
numbers of 8 bits. Attention with `rows` queries:

    stretch = (1 + h_rows / (rows + tile)) (1 + h_head / head) / (1 + h_head / 128)

Cut into p parts, no shape is stretched less: p devices never take less time in all than one does,
on which lower bounds of steps rest (`solver/pipeline/least_step.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import DTYPE_BYTES, Calibration, Device, OpClass
from meshwright.schema.curves import DeviceCurves, ProductCurve

FloatArray = NDArray[np.float64]
Sizes = float | FloatArray
HEAD = 128.0  # published: the head dimension that FlashAttention-2 (arXiv:2307.08691) is tuned for

# chosen: a tile of rows; a single query, as of a token that is generated, wastes no more than that
ROWS = 64.0


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a product or of attention on one device, or of one strategy each.

    Of attention: groups heads, rows queries, columns keys, depth the head dimension.
    """

    groups: Sizes
    rows: Sizes
    columns: Sizes
    depth: Sizes

    @property
    def of_left(self) -> Shape:
        """The product that makes the gradient of the left factor."""
        return Shape(self.groups, self.rows, self.depth, self.columns)

    @property
    def of_right(self) -> Shape:
        """The product that makes the gradient of the right factor."""
        return Shape(self.groups, self.depth, self.columns, self.rows)

    def and_others(self, *others: Shape) -> Shape:
        """All on a new first dim, in this order: what is asked of them is worked out at once."""
        own = (self, *others)
        return Shape(
            np.array([one.groups for one in own]),
            np.array([one.rows for one in own]),
            np.array([one.columns for one in own]),
            np.array([one.depth for one in own]),
        )


@dataclass(frozen=True, slots=True)
class Rates:
    """What a calibration says of one device.

    curves: of the device, or of its nearest relative; None where there are shares alone. size: its
    peak over the relative's: as much more is under way at a time, and has to fill and empty.
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
        """Share of peak that large shapes reach."""
        if self.curves is None or op_class not in ("matmul", "attention"):
            share: float = getattr(self.calibration.efficiency, op_class)
            return share
        if op_class == "attention":
            return self.curves.attention.share.value
        product = self.curves.product
        eight_bit = product.eight_bit.value if DTYPE_BYTES[dtype] == 1 else 1.0
        return product.share.value * eight_bit

    def unhidden(self, op_class: OpClass) -> float:
        """Share of the shorter of arithmetic and memory traffic that is not hidden."""
        if self.curves is None or op_class != "matmul":
            return 0.0
        return self.curves.product.unhidden.value

    def stretch(self, op_class: OpClass, shape: Shape | None, dtype: str) -> Sizes:
        """How many times as long as at the full share arithmetic takes in such a shape."""
        if self.curves is None or shape is None:
            return 1.0
        if op_class == "attention":
            return _attention_stretch(self.curves, shape)
        assert op_class == "matmul"
        ends = 2.0 if DTYPE_BYTES[dtype] == 1 else 1.0
        return _product_stretch(self.curves.product, shape, size=self.size, ends=ends)

    @property
    def attention_backward(self) -> float:
        """Of the forward share of attention, what the backward pass reaches."""
        return 1.0 if self.curves is None else self.curves.attention.backward.value


def rates_of(calibration: Calibration, device: Device) -> Rates:
    """What a calibration says of a device, or of its nearest relative."""
    if not calibration.curves:
        return Rates(calibration, None)
    for own in calibration.curves:
        if own.device == device.name:
            return Rates(calibration, own)
    peak = device.peak_flops_per_s("bfloat16")
    nearest = min(calibration.curves, key=lambda own: abs(math.log(own.flops_per_s / peak)))
    return Rates(calibration, nearest, peak / nearest.flops_per_s)


def _product_stretch(own: ProductCurve, shape: Shape, *, size: float, ends: float) -> Sizes:
    half, depth = own.half_tile.value, ends * own.half_depth.value
    results = shape.groups * shape.rows * shape.columns
    taken = shape.groups * (shape.rows + half) * (shape.columns + half) + own.fill.value * size
    return taken / results * (1.0 + depth / shape.depth)


def _attention_stretch(curves: DeviceCurves, shape: Shape) -> Sizes:
    own = curves.attention
    short = 1.0 + own.half_rows.value / (shape.rows + ROWS)
    return short * (1.0 + own.half_head.value / shape.depth) / (1.0 + own.half_head.value / HEAD)
