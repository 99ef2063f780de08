"""Kinds that reduce dims to one value each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall, Shape
from meshwright_solver.verification.execution.kernels.kernel import OpKernel, no_gradient

Gradients = tuple[Array | None, ...]


def _dims(call: KernelCall) -> tuple[int, ...]:
    """attrs `dims` (all where absent), counted from the front."""
    rank = call.x.ndim
    dims = call.attrs.get("dims", call.attrs.get("dim"))
    if dims is None:
        return tuple(range(rank))
    if isinstance(dims, int):
        dims = [dims]
    return tuple(sorted({int(d) % rank for d in dims})) if rank else ()


def _shape_with_ones(call: KernelCall) -> Shape:
    """The output's shape, with the reduced dims as 1."""
    gone = _dims(call)
    return tuple(1 if d in gone else size for d, size in enumerate(call.x.shape))


def _spread(call: KernelCall, array: Array) -> Array:
    """An array of the output's shape, broadcast over the input's shape."""
    return np.broadcast_to(array.reshape(_shape_with_ones(call)), call.x.shape)


def _reduce(call: KernelCall, *, function: Callable[..., Array]) -> Array:
    return np.asarray(function(call.x, axis=_dims(call))).reshape(call.shape)


def _count(call: KernelCall) -> int:
    return math.prod(call.x.shape[d] for d in _dims(call))


def _sum_gradients(call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]) -> Gradients:
    return (_spread(call, sent[0]),)


def _mean(call: KernelCall) -> Array:
    return np.asarray(call.x.sum(axis=_dims(call)) / _count(call)).reshape(call.shape)


def _mean_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (_spread(call, sent[0] / _count(call)),)


def _extreme_gradients(
    call: KernelCall, outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    """Equal shares to all elements that are the extreme."""
    best = call.x == _spread(call, outputs[0])
    return (best * _spread(call, sent[0]) / best.sum(axis=_dims(call), keepdims=True),)


def _product_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    """The product of all other elements, those before times those behind; no division."""
    dims = _dims(call)
    last = tuple(range(-len(dims), 0))
    moved = np.moveaxis(call.x, dims, last)
    flat = moved.reshape(*moved.shape[: moved.ndim - len(dims)], -1)
    before = np.ones_like(flat)
    before[..., 1:] = np.cumprod(flat[..., :-1], axis=-1)
    behind = np.ones_like(flat)
    behind[..., :-1] = np.cumprod(flat[..., :0:-1], axis=-1)[..., ::-1]
    others = np.moveaxis((before * behind).reshape(moved.shape), last, dims)
    return (_spread(call, sent[0]) * others,)


def _correction(call: KernelCall) -> float:
    unbiased = call.attrs.get("unbiased", True)
    return float(call.number("correction", 1.0 if unbiased else 0.0))


def _variance(call: KernelCall) -> Array:
    return _centred_squares(call) / max(_count(call) - _correction(call), 1e-300)


def _centred_squares(call: KernelCall) -> Array:
    centred = call.x - call.x.mean(axis=_dims(call), keepdims=True)
    return np.asarray((centred**2).sum(axis=_dims(call))).reshape(call.shape)


def _variance_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    centred = call.x - call.x.mean(axis=_dims(call), keepdims=True)
    return (2 * centred * _spread(call, sent[0]) / (_count(call) - _correction(call)),)


def _place(call: KernelCall, *, function: Callable[..., Array]) -> Array:
    if call.attrs.get("dim") is None and call.attrs.get("dims") is None:
        return np.asarray(function(call.x)).reshape(call.shape)
    return np.asarray(function(call.x, axis=call.dim(-1))).reshape(call.shape)


REDUCTIONS: Mapping[str, OpKernel] = {
    "sum": OpKernel(partial(_reduce, function=np.sum), _sum_gradients),
    "mean": OpKernel(_mean, _mean_gradients),
    "amax": OpKernel(partial(_reduce, function=np.max), _extreme_gradients),
    "amin": OpKernel(partial(_reduce, function=np.min), _extreme_gradients),
    "prod": OpKernel(partial(_reduce, function=np.prod), _product_gradients),
    "var": OpKernel(_variance, _variance_gradients),
    "any": OpKernel(partial(_reduce, function=np.any), no_gradient),
    "all": OpKernel(partial(_reduce, function=np.all), no_gradient),
    "argmax": OpKernel(partial(_place, function=np.argmax), no_gradient),
    "argmin": OpKernel(partial(_place, function=np.argmin), no_gradient),
}
