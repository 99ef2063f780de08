"""Quantized values and products with them; only fake_quant, made for training, has a gradient.

Integers are int64 here, clipped to the range of 8 bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall
from meshwright_solver.verification.execution.kernels.kernel import OpKernel, no_gradient

Gradients = tuple[Array | None, ...]

_LEAST, _GREATEST = -128, 127


def _number(call: KernelCall, position: int, name: str, default: float) -> Array:
    array = call.optional(position)
    return np.asarray(call.number(name, default)) if array is None else array


def _to_int8(x: Array) -> Array:
    return np.clip(np.round(x), _LEAST, _GREATEST).astype(np.int64)


def _quantize(call: KernelCall) -> Array:
    scale, offset = _number(call, 1, "scale", 1.0), _number(call, 2, "offset", 0.0)
    return _to_int8(call.x * scale + offset)


def _dequantize(call: KernelCall) -> Array:
    scale, offset = _number(call, 1, "scale", 1.0), _number(call, 2, "offset", 0.0)
    return np.asarray((call.x + offset) * np.asarray(scale, dtype=np.float64))


def _dynamic_quant(call: KernelCall) -> tuple[Array, Array]:
    """Rows divided by their scale, largest element / 127; a row of zeros has the scale 0."""
    smooth = call.optional(1)
    x = call.x if smooth is None else call.x * smooth
    scale = np.abs(x).max(axis=-1) / _GREATEST
    return _to_int8(x / np.where(scale == 0, 1.0, scale)[..., None]), scale


def _limits(call: KernelCall) -> tuple[Array, Array]:
    """The limits, shaped to broadcast with x; zero lies between them."""
    shape = [1] * call.x.ndim
    if call.attrs.get("dim") is not None:
        shape[call.dim(0)] = -1
    return np.minimum(call.inputs[1], 0).reshape(shape), np.maximum(call.inputs[2], 0).reshape(
        shape
    )


def _steps(call: KernelCall) -> tuple[Array, Array, int, int]:
    """Scale, zero point, least and greatest number."""
    bits = int(call.number("bits", 8))
    symmetric = bool(call.attrs.get("symmetric", False))
    least = (-(2 ** (bits - 1)) if symmetric else 0) + bool(call.attrs.get("narrow", False))
    greatest = 2 ** (bits - 1) - 1 if symmetric else 2**bits - 1
    low, high = _limits(call)
    if symmetric:
        high = np.maximum(-low, high)
        low = -high
    scale = (high - low) / (greatest - least)
    scale = np.where(scale == 0, 1.0, scale)
    return scale, np.round(least - low / scale), least, greatest


def _fake_quant(call: KernelCall) -> Array:
    scale, zero, least, greatest = _steps(call)
    return np.asarray((np.clip(np.round(call.x / scale) + zero, least, greatest) - zero) * scale)


def _fake_quant_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    """Straight-through gradient where nothing is clipped; the limits are not trained."""
    scale, zero, least, greatest = _steps(call)
    place = np.round(call.x / scale) + zero
    return (np.where((place >= least) & (place <= greatest), sent[0], 0.0),)


def _min_max_update(call: KernelCall) -> tuple[Array, Array]:
    """The running limits; with attrs `ema`, moved by attrs `decay`."""
    low, high = call.inputs[1], call.inputs[2]
    if call.attrs.get("dim") is None:
        least, greatest = call.x.min().reshape(1), call.x.max().reshape(1)
    else:
        others = tuple(d for d in range(call.x.ndim) if d != call.dim(0))
        least, greatest = call.x.min(axis=others), call.x.max(axis=others)
    if call.attrs.get("ema", False):
        decay = call.number("decay", 0.999)
        least = decay * low + (1 - decay) * least
        greatest = decay * high + (1 - decay) * greatest
    return np.minimum(least, 0), np.maximum(greatest, 0)


def _quant_matmul(call: KernelCall) -> Array:
    result = np.matmul(call.x, call.inputs[1]) * call.inputs[2].astype(np.float64)
    for more in call.inputs[3:]:
        result = result + more
    return _to_int8(result) if "int" in str(call.attrs.get("dtype", "float16")) else result


def _weight(call: KernelCall) -> Array:
    """The dequantized weight [k, n]; scales with two dims are those of groups of rows."""
    weight, scale = call.inputs[1].astype(np.float64), call.inputs[2]
    offset = _number(call, 3, "offset", 0.0)
    if scale.ndim == 2:
        groups = len(scale)
        weight = weight.reshape(groups, -1, weight.shape[1])
        scale = scale[:, None]
        offset = offset[:, None] if offset.ndim == 2 else offset
    return np.asarray(((weight + offset) * scale).reshape(call.inputs[1].shape))


def _weight_quant_matmul(call: KernelCall) -> Array:
    return np.asarray(call.x @ _weight(call))


def _weight_quant_matmul_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (sent[0] @ _weight(call).T,)


def _compressed_matmul(call: KernelCall) -> Array:
    """Rows times a weight [n, k] made of the stored values, repeated and shifted by the index.

    Ascend's compression is not public. This stand-in depends on every element of weight and index,
    as the original does.
    """
    n, k = call.shape[1], call.x.shape[1]
    weight = np.resize(np.roll(call.inputs[1].reshape(-1), int(call.inputs[2].sum())), (n, k))
    result = call.x @ weight.T
    for bias in call.inputs[3:4]:
        result = result + bias
    for scale in call.inputs[4:5]:
        result = result * scale
    return np.asarray(result, dtype=np.float64)


QUANTISATION: Mapping[str, OpKernel] = {
    "quantize": OpKernel(_quantize, no_gradient),
    "dequantize": OpKernel(_dequantize, no_gradient),
    "dynamic_quant": OpKernel(_dynamic_quant, no_gradient),
    "fake_quant": OpKernel(_fake_quant, _fake_quant_gradients),
    "min_max_update": OpKernel(_min_max_update, no_gradient),
    "quant_matmul": OpKernel(_quant_matmul, no_gradient),
    "weight_quant_matmul": OpKernel(_weight_quant_matmul, _weight_quant_matmul_gradients),
    "compressed_matmul": OpKernel(_compressed_matmul, no_gradient),
}
