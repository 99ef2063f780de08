"""Normalizations.

With x' = (x - mean) / sqrt(variance + eps) over some dims, w = weight + weight_offset,
y = x' w + bias, and g the gradient of x':

    gradient of x = (g - mean(g) - x' * mean(g * x')) / sqrt(variance + eps)

The first mean is absent where the input is not centered (rms_norm), and both are absent where the
statistics are inputs (batch_norm outside of training). Statistics that are outputs have no
gradient, as in the frameworks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from meshwright_solver.verification.execution.kernels.call import (
    Array,
    KernelCall,
    Shape,
    reduced_to,
)
from meshwright_solver.verification.execution.kernels.kernel import OpKernel

Gradients = tuple[Array | None, ...]


@dataclass(frozen=True, slots=True)
class _Normal:
    """The shapes of a normalization.

    view: shape of the input. dims: normalized dims of the view. scale: shape of weight and bias.
    statistics: mean and variance, where they are inputs.
    """

    view: Shape
    dims: tuple[int, ...]
    scale: Shape
    centred: bool = True
    statistics: tuple[Array, Array] | None = None


_NormalOf = Callable[[KernelCall], _Normal]


def _over_last_dims(call: KernelCall, *, centred: bool) -> _Normal:
    count = int(call.number("dims", 1))
    shape = call.x.shape
    dims = tuple(range(call.x.ndim - count, call.x.ndim))
    return _Normal(shape, dims, shape[call.x.ndim - count :], centred)


def _layer(call: KernelCall) -> _Normal:
    return _over_last_dims(call, centred=True)


def _root_mean_square(call: KernelCall) -> _Normal:
    return _over_last_dims(call, centred=False)


def _batch(call: KernelCall) -> _Normal:
    shape = call.x.shape
    scale = (shape[1], *[1] * (call.x.ndim - 2))
    dims = (0, *range(2, call.x.ndim))
    if call.attrs.get("training", True) or len(call.inputs) < 5:
        return _Normal(shape, dims, scale)
    statistics = (call.inputs[3].reshape(scale), np.abs(call.inputs[4]).reshape(scale))
    return _Normal(shape, dims, scale, statistics=statistics)


def _group(call: KernelCall) -> _Normal:
    """Groups of channels, as many as the gcd of attrs `groups` and the channels."""
    shape = call.x.shape
    groups = gcd(int(call.number("groups", 1)), shape[1])
    view = (shape[0], groups, prod(shape[1:]) // groups)
    return _Normal(view, (2,), (shape[1], *[1] * (call.x.ndim - 2)))


def _normalize(call: KernelCall, normal: _Normal) -> tuple[Array, Array]:
    """x' and 1 / sqrt(variance + eps), both as the view."""
    x = call.x.reshape(normal.view)
    if normal.statistics is not None:
        mean, variance = normal.statistics
        x = x - mean
    else:
        if normal.centred:
            x = x - x.mean(axis=normal.dims, keepdims=True)
        variance = np.mean(x**2, axis=normal.dims, keepdims=True)
    spread = np.sqrt(variance + call.number("eps", 1e-5))
    inverse = np.where(spread > 0, 1 / spread, 0.0)
    return x * inverse, inverse


def _kernel(normal_of: _NormalOf) -> OpKernel:
    def forward(call: KernelCall) -> list[Array]:
        normal = normal_of(call)
        unit, inverse = _normalize(call, normal)
        result = unit.reshape(call.x.shape)
        weight, bias = call.optional(1), call.optional(2)
        if weight is not None:
            result = result * _factor(call, weight, normal)
        if bias is not None:
            result = result + bias.reshape(normal.scale)
        return [result, *_statistics(call, normal, inverse)]

    def backward(call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]) -> Gradients:
        normal = normal_of(call)
        unit, inverse = _normalize(call, normal)
        weight = call.optional(1)
        inner = sent[0] if weight is None else sent[0] * _factor(call, weight, normal)
        gradient = inner.reshape(normal.view)
        gradients: list[Array | None] = [
            _input_gradient(normal, unit, inverse, gradient).reshape(call.x.shape)
        ]
        for parameter, whole in zip(
            call.inputs[1:3], (sent[0] * unit.reshape(call.x.shape), sent[0]), strict=False
        ):
            gradients.append(reduced_to(normal.scale, whole).reshape(parameter.shape))
        return tuple(gradients)

    return OpKernel(forward, backward)


def _factor(call: KernelCall, weight: Array, normal: _Normal) -> Array:
    return np.asarray(weight.reshape(normal.scale) + call.number("weight_offset", 0.0))


def _statistics(call: KernelCall, normal: _Normal, inverse: Array) -> list[Array]:
    """Mean and deviation as further outputs: 1 / deviation, or the variance for a batch norm."""
    if len(call.output_shapes) == 1:
        return []
    mean = call.x.reshape(normal.view).mean(axis=normal.dims, keepdims=True)
    spread = inverse
    if call.kind == "batch_norm":
        spread = call.x.reshape(normal.view).var(axis=normal.dims, keepdims=True)
        if normal.statistics is not None:
            mean, spread = normal.statistics
    statistics = [mean, spread] if normal.centred else [spread]
    more = call.output_shapes[1:]
    return [array.reshape(shape) for array, shape in zip(statistics * 2, more, strict=False)]


def _input_gradient(normal: _Normal, unit: Array, inverse: Array, gradient: Array) -> Array:
    if normal.statistics is not None:
        return gradient * inverse
    centred = gradient - unit * np.mean(gradient * unit, axis=normal.dims, keepdims=True)
    if normal.centred:
        centred = centred - np.mean(gradient, axis=normal.dims, keepdims=True)
    return np.asarray(centred * inverse)


def _length(call: KernelCall) -> tuple[Array, Array]:
    """x over its length along attrs dims, and 1 / length.

    The length is at least the root of eps. At that bound it does not depend on x, and the second
    result is negative.
    """
    dims = call.attrs.get("dims", call.attrs.get("dim", -1))
    dims = tuple(dims) if isinstance(dims, list) else (int(dims),)
    square = (call.x**2).sum(axis=dims, keepdims=True)
    least = call.number("eps", 1e-4)
    inverse = 1 / np.sqrt(np.maximum(square, least))
    return call.x * inverse, np.where(square > least, inverse, -inverse)


def _l2_gradients(call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]) -> Gradients:
    dims = call.attrs.get("dims", call.attrs.get("dim", -1))
    dims = tuple(dims) if isinstance(dims, list) else (int(dims),)
    unit, inverse = _length(call)
    along = unit * (unit * sent[0]).sum(axis=dims, keepdims=True)
    return ((sent[0] - np.where(inverse > 0, along, 0.0)) * np.abs(inverse),)


NORMALISATIONS: Mapping[str, OpKernel] = {
    "l2_normalize": OpKernel(lambda call: _length(call)[0], _l2_gradients),
    "layer_norm": _kernel(_layer),
    "rms_norm": _kernel(_root_mean_square),
    "batch_norm": _kernel(_batch),
    "group_norm": _kernel(_group),
}
