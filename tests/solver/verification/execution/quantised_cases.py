"""Calls of quantised kinds, and their meanings in torch."""

from __future__ import annotations

import numpy as np
import torch

from tests.solver.verification.execution.kernel_cases import (
    Case,
    Torch,
    case,
    positive,
    real,
    whole,
)

T = torch.Tensor


def int8(x: T) -> T:
    return x.round().clamp(-128, 127).long()


def dynamic(x: T, smooth: T | None = None) -> tuple[T, T]:
    x = (x if smooth is None else x * smooth).detach()
    scale = x.abs().amax(-1) / 127
    return int8(x / scale[..., None]), scale


def fake(dim: int | None = None, *, least: int = 0, greatest: int = 255) -> Torch:
    """Straight through; torch's own knows float32 alone."""

    def run(x: T, low: T, high: T) -> T:
        low, high = low.detach().clamp(max=0), high.detach().clamp(min=0)
        if least < 0:
            high = torch.maximum(-low, high)
            low = -high
        scale = (high - low) / (greatest - least)
        zero = (least - low / scale).round()
        shape = [1] * x.ndim if dim is None else [-1 if d == dim else 1 for d in range(x.ndim)]
        scale, zero = scale.reshape(shape), zero.reshape(shape)
        place = (x / scale).round() + zero
        kept = ((place >= least) & (place <= greatest)).detach()
        value = ((place.clamp(least, greatest) - zero) * scale).detach()
        return value + torch.where(kept, x - x.detach(), 0.0)

    return run


def limits(x: T, *_: T) -> tuple[T, T]:
    return x.amin([0, 2]).clamp(max=0).detach(), x.amax([0, 2]).clamp(min=0).detach()


def moved_limits(x: T, low: T, high: T) -> tuple[T, T]:
    low, high = 0.9 * low + 0.1 * x.min(), 0.9 * high + 0.1 * x.max()
    return low.clamp(max=0).detach(), high.clamp(min=0).detach()


def compressed(x: T, weight: T, index: T, bias: T, scale: T) -> T:
    stored = weight.roll(int(index.sum())).repeat(9)[: 4 * x.shape[1]].reshape(4, x.shape[1])
    return ((x @ stored.T + bias) * scale).detach()


INTS = whole(200, 3, 4) - 100
CASES: list[Case] = [
    case("quantize", real(3, 4), scale=40.0, offset=3.0, by=lambda x: int8(x * 40 + 3)),
    case("quantize", real(3, 4), positive(4), real(4), by=lambda x, s, o: int8(x * s + o)),
    case("dequantize", INTS, scale=0.3, offset=2.0, by=lambda x: (x + 2.0).double() * 0.3),
    case("dequantize", INTS, positive(4), real(4),
         by=lambda x, s, o: ((x + o) * s).detach()),
    case("dynamic_quant", real(3, 4), by=dynamic),
    case("dynamic_quant", real(2, 3, 4), positive(4), by=dynamic),
    case("fake_quant", 2 * real(3, 4), np.array([-1.5]), np.array([1.0]), by=fake()),
    case("fake_quant", 2 * real(2, 3, 4), -positive(3), positive(3), dim=1, bits=4,
         by=fake(1, greatest=15)),
    case("fake_quant", 2 * real(2, 3), np.array([-1.5]), np.array([1.0]), symmetric=True,
         narrow=True, by=fake(least=-127, greatest=127)),
    case("min_max_update", real(2, 3, 4), -positive(3), positive(3), dim=1, by=limits),
    case("min_max_update", real(2, 4), -positive(1), positive(1), ema=True, decay=0.9,
         by=moved_limits),
    case("quant_matmul", INTS, whole(99, 4, 5), positive(5),
         by=lambda x, w, s: (x @ w * s).detach()),
    case("quant_matmul", INTS, whole(99, 4, 5), positive(1),
         by=lambda x, w, s: (x @ w * s).detach()),
    case("quant_matmul", whole(9, 2, 3, 4), whole(9, 2, 4, 5), positive(5), real(5),
         by=lambda x, w, s, b: (x @ w * s + b).detach()),
    case("quant_matmul", INTS, whole(9, 4, 5), positive(5), dtype="int8",
         by=lambda x, w, s: int8(x @ w * s)),
    case("weight_quant_matmul", real(2, 3, 4), INTS.T, positive(3), real(3),
         by=lambda x, w, s, o: x @ ((w + o) * s).detach()),
    case("weight_quant_matmul", real(2, 6), whole(99, 6, 3), positive(2, 3), real(2, 3),
         by=lambda x, w, s, o: x @ (
             (w + o.repeat_interleave(3, 0)) * s.repeat_interleave(3, 0)).detach()),
    case("compressed_matmul", INTS, whole(99, 11), whole(9, 3), real(4), positive(4),
         by=lambda x, w, i, b, s: compressed(x.double(), w.double(), i, b, s)),
]  # fmt: skip
