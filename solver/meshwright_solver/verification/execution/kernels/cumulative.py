"""Kinds that accumulate along a dim, reductions with a place, sums of squares and diagonals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall, is_float
from meshwright_solver.verification.execution.kernels.kernel import OpKernel

Gradients = tuple[Array | None, ...]


def _cumsum(call: KernelCall) -> Array:
    whole = np.float64 if is_float(call.x) else np.int64
    return np.cumsum(call.x, axis=call.dim(-1), dtype=whole)


def _cumsum_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    dim = call.dim(-1)
    return (np.flip(np.cumsum(np.flip(sent[0], dim), axis=dim), dim),)


def _cumprod(call: KernelCall) -> Array:
    whole = np.float64 if is_float(call.x) else np.int64
    return np.cumprod(call.x, axis=call.dim(-1), dtype=whole)


def _cumprod_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    """Sum, for each element, the products of all others; no division."""
    x, gradient = (np.moveaxis(array, call.dim(-1), 0) for array in (call.x, sent[0]))
    gradients = np.zeros_like(x)
    for i in range(len(x)):
        others = x.copy()
        others[i] = 1.0
        gradients[i] = (gradient * np.cumprod(others, axis=0))[i:].sum(axis=0)
    return (np.moveaxis(gradients, 0, call.dim(-1)),)


def _running_best(
    call: KernelCall, *, better: Callable[[Array, Array], Array]
) -> tuple[Array, Array]:
    """The best value so far, the last of equal ones, and its place."""
    x = np.moveaxis(call.x, call.dim(-1), 0)
    best, place = x.copy(), np.zeros(x.shape, dtype=np.int64)
    for i in range(1, len(x)):
        new = better(x[i], best[i - 1])
        best[i] = np.where(new, x[i], best[i - 1])
        place[i] = np.where(new, i, place[i - 1])
    return np.moveaxis(best, 0, call.dim(-1)), np.moveaxis(place, 0, call.dim(-1))


def _to_places(call: KernelCall, gradient: Array, place: Array) -> Array:
    """A gradient added at the place that its value comes from, along the dim."""
    gradients = np.zeros(call.x.shape)
    where: list[Array] = list(np.indices(place.shape, sparse=True))
    where[call.dim(-1)] = place
    np.add.at(gradients, tuple(where), gradient)
    return gradients


def _running_gradients(
    call: KernelCall, outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (_to_places(call, sent[0], outputs[1]),)


def _index_first(call: KernelCall) -> bool:
    return bool(call.attrs.get("index_first", False))


def _best_place(call: KernelCall, *, place: Callable[..., Array]) -> Array:
    return np.expand_dims(place(call.x, axis=call.dim(-1)), call.dim(-1))


def _best(call: KernelCall, *, place: Callable[..., Array]) -> tuple[Array, Array]:
    """The extreme along the dim, the first of equal ones, and its place."""
    where = _best_place(call, place=place)
    value = np.take_along_axis(call.x, where, axis=call.dim(-1))
    pair = (value.reshape(call.shape), where.reshape(call.shape))
    return pair[::-1] if _index_first(call) else pair


def _best_gradients(
    call: KernelCall,
    _outputs: Sequence[Array],
    sent: Sequence[Array],
    *,
    place: Callable[..., Array],
) -> Gradients:
    where = _best_place(call, place=place)
    gradient = sent[1 if _index_first(call) else 0].reshape(where.shape)
    return (_to_places(call, gradient, where),)


def _diagonal(call: KernelCall) -> Array:
    """A mask of the diagonal of two dims, to broadcast over the other dims."""
    first, second = (int(d) % call.x.ndim for d in call.attrs.get("dims", [0, 1]))
    rows, columns = call.x.shape[first], call.x.shape[second]
    mask = np.eye(rows, columns, int(call.number("offset", 0)))
    if first > second:
        mask = mask.T
    shape = [size if d in (first, second) else 1 for d, size in enumerate(call.x.shape)]
    return mask.reshape(shape)


def _trace(call: KernelCall) -> Array:
    dims = tuple(int(d) % call.x.ndim for d in call.attrs.get("dims", [0, 1]))
    diagonal = call.x * _diagonal(call).astype(call.x.dtype)
    return np.asarray(diagonal.sum(axis=dims)).reshape(call.shape)


def _trace_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    dims = tuple(int(d) % call.x.ndim for d in call.attrs.get("dims", [0, 1]))
    return (np.expand_dims(sent[0], tuple(sorted(dims))) * _diagonal(call),)


def _half_square(call: KernelCall) -> Array:
    return np.asarray((call.x**2).sum() / 2).reshape(call.shape)


def _half_square_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (call.x * sent[0].reshape(()),)


def _squares(call: KernelCall) -> list[Array]:
    return [np.asarray((array**2).sum()).reshape(call.shape) for array in call.inputs]


def _squares_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return tuple(2 * x * g.reshape(()) for x, g in zip(call.inputs, sent, strict=True))


CUMULATIVE: Mapping[str, OpKernel] = {
    "cumsum": OpKernel(_cumsum, _cumsum_gradients),
    "cumprod": OpKernel(_cumprod, _cumprod_gradients),
    "cummax": OpKernel(partial(_running_best, better=np.greater_equal), _running_gradients),
    "cummin": OpKernel(partial(_running_best, better=np.less_equal), _running_gradients),
    "max_with_index": OpKernel(
        partial(_best, place=np.argmax), partial(_best_gradients, place=np.argmax)
    ),
    "min_with_index": OpKernel(
        partial(_best, place=np.argmin), partial(_best_gradients, place=np.argmin)
    ),
    "trace": OpKernel(_trace, _trace_gradients),
    "l2_loss": OpKernel(_half_square, _half_square_gradients),
    "square_sum_all": OpKernel(_squares, _squares_gradients),
}
