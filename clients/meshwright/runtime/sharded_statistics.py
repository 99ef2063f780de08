"""Normalization and softmax along sharded dims.

With x_i the elements of all parts and n their number,

    mean = sum x_i / n
    variance = sum x_i^2 / n - mean^2
    softmax_i = e^(x_i - m) / sum_j e^(x_j - m)

where m is the maximum. Each rank sums over its part. One all-reduce adds the sums over the ranks in
the forward pass, and another adds their gradients in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from meshwright.runtime.arrays import Array, Arrays, Reduce

# arguments: arrays, the call with local inputs, the all-reduce over the ranks, the number of parts
Statistic = Callable[[Arrays, Any, Reduce, int], Array]


def _standardize(
    arrays: Arrays, x: Array, dims: Sequence[int], reduce: Reduce, parts: int, eps: float
) -> Array:
    """Mean 0 and variance 1 over some dims of all parts."""
    count = parts * prod(x.shape[d] for d in dims)
    sums = arrays.stack([arrays.sum(x, dims, keepdims=True), arrays.sum(x**2, dims, keepdims=True)])
    mean, square = arrays.sum_over_ranks(sums, reduce) / count
    return (x - mean) * arrays.rsqrt(square - mean**2 + eps)


def _batch_norm(arrays: Arrays, call: Any, reduce: Reduce, parts: int) -> Array:
    x, weight, bias = call.inputs[:3]
    dims = [d for d in range(x.ndim) if d != 1]
    shape = [-1 if d == 1 else 1 for d in range(x.ndim)]
    standardized = _standardize(arrays, x, dims, reduce, parts, call.attrs["eps"])
    return standardized * weight.reshape(shape) + bias.reshape(shape)


def _layer_norm(arrays: Arrays, call: Any, reduce: Reduce, parts: int) -> Array:
    standardized = _standardize(arrays, call.x, _last_dims(call), reduce, parts, call.attrs["eps"])
    weight, bias = call.optional(1), call.optional(2)
    scaled = standardized if weight is None else standardized * weight
    return scaled if bias is None else scaled + bias


def _rms_norm(arrays: Arrays, call: Any, reduce: Reduce, parts: int) -> Array:
    x, weight = call.x, call.optional(1)
    wide = arrays.cast(x, call.attrs.get("compute", x.dtype))
    dims = _last_dims(call)
    count = parts * prod(x.shape[d] for d in dims)
    squares = arrays.sum(wide**2, dims, keepdims=True)
    square = arrays.sum_over_ranks(squares, reduce) / count
    normalized = wide * arrays.rsqrt(square + call.attrs["eps"])
    if weight is None:
        return arrays.cast(normalized, x.dtype)
    if offset := call.attrs.get("weight_offset"):
        return arrays.cast(normalized * (arrays.cast(weight, wide.dtype) + offset), x.dtype)
    return weight * arrays.cast(normalized, x.dtype)


def _softmax(arrays: Arrays, call: Any, reduce: Reduce, _parts: int) -> Array:
    exponents, total = _exponents(arrays, call, reduce)
    return arrays.exp(exponents) / total


def _log_softmax(arrays: Arrays, call: Any, reduce: Reduce, _parts: int) -> Array:
    exponents, total = _exponents(arrays, call, reduce)
    return exponents - arrays.log(total)


def _exponents(arrays: Arrays, call: Any, reduce: Reduce) -> tuple[Array, Array]:
    """x_i - m, and the sum of e^(x_j - m) over all parts."""
    dim = call.attrs["dim"]
    exponents = call.x - reduce(arrays.max(call.x, dim), "max")
    powers = arrays.sum(arrays.exp(exponents), (dim,), keepdims=True)
    return exponents, arrays.sum_over_ranks(powers, reduce)


def _last_dims(call: Any) -> list[int]:
    return list(range(call.x.ndim - int(call.attrs["dims"]), call.x.ndim))


STATISTICS: Mapping[str, Statistic] = {
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
}
