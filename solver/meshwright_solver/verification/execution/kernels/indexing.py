"""Kinds that pick elements by number or by order.

Numbers beyond the end of a scaled-down dim are taken modulo its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall
from meshwright_solver.verification.execution.kernels.kernel import OpKernel

Gradients = tuple[Array | None, ...]
Place = tuple[Any, ...]


def _add_at(call: KernelCall, place: Place, gradient: Array) -> Array:
    whole = np.zeros(call.x.shape)
    np.add.at(whole, place, gradient)
    return whole


def _along(index: Array, dim: int, size: int) -> Place:
    """The places that `index` names along a dim; its other dims index themselves."""
    grid: list[Array] = list(np.indices(index.shape, sparse=True))
    grid[dim] = index.astype(np.int64) % size
    return tuple(grid)


def _gather_place(call: KernelCall) -> Place:
    dim = call.dim(-1)
    return _along(call.inputs[1], dim, call.x.shape[dim])


def _gather(call: KernelCall) -> Array:
    return np.asarray(call.x[_gather_place(call)])


def _gather_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (_add_at(call, _gather_place(call), sent[0]), None)


def _select_place(call: KernelCall) -> Place:
    """The index at the dim; common leading dims count as index dims of their own."""
    dim, batch = call.dim(0), int(call.number("batch_dims", 0))
    index = call.inputs[1].astype(np.int64) % call.x.shape[dim]
    if not batch:
        return (*(slice(None),) * dim, index)
    # every dim up to the indexed one gets an index: common dims, dims between, the index's own
    between = call.x.shape[batch:dim]
    shape = (*call.x.shape[:batch], *between, *index.shape[batch:])
    grid = np.indices(shape, sparse=True)
    spread = index.reshape(*index.shape[:batch], *[1] * len(between), *index.shape[batch:])
    return (*grid[:dim], spread)


def _index_select(call: KernelCall) -> Array:
    return np.asarray(call.x[_select_place(call)])


def _index_select_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (_add_at(call, _select_place(call), sent[0]), None)


def _index_place(call: KernelCall) -> Place:
    dims = [int(d) for d in call.attrs["dims"]]
    place: list[Any] = [slice(None)] * (max(dims) + 1)
    for dim, index in zip(dims, call.inputs[1:], strict=True):
        place[dim] = index if index.dtype == np.bool_ else index % call.x.shape[dim]
    return tuple(place)


def _index(call: KernelCall) -> Array:
    return np.asarray(call.x[_index_place(call)])


def _index_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (_add_at(call, _index_place(call), sent[0]),)


def _source(call: KernelCall) -> Array | float:
    source = call.optional(2)
    if source is None:
        return float(call.number("value", 0.0))
    return source[tuple(slice(size) for size in call.inputs[1].shape)]


def _scatter(call: KernelCall) -> Array:
    result = call.x.copy()
    result[_gather_place(call)] = _source(call)
    return result


def _scatter_add(call: KernelCall) -> Array:
    result = call.x.copy()
    np.add.at(result, _gather_place(call), _source(call))
    return result


def _source_gradient(call: KernelCall, sent: Array) -> Array | None:
    source = call.optional(2)
    if source is None:
        return None
    whole = np.zeros(source.shape)
    whole[tuple(slice(size) for size in call.inputs[1].shape)] = sent[_gather_place(call)]
    return whole


def _scatter_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    gradient = sent[0].copy()
    gradient[_gather_place(call)] = 0.0
    return (gradient, None, _source_gradient(call, sent[0]))[: len(call.inputs)]


def _scatter_add_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return sent[0], None, _source_gradient(call, sent[0])


def _sorted_with_places(call: KernelCall, *, descending: bool) -> tuple[Array, Array]:
    """Values and places along the dim, as many as the outputs have; the sort is stable."""
    dim = call.dim(-1)
    x = call.x.astype(np.int64) if call.x.dtype == np.bool_ else call.x
    order = np.argsort(-x if descending else x, axis=dim, kind="stable")
    order = order[(slice(None),) * dim + (slice(call.shape[dim]),)]
    return np.take_along_axis(call.x, order, axis=dim), order


def _topk(call: KernelCall) -> tuple[Array, Array]:
    return _sorted_with_places(call, descending=bool(call.attrs.get("largest", True)))


def _sort(call: KernelCall) -> tuple[Array, Array]:
    return _sorted_with_places(call, descending=bool(call.attrs.get("descending", False)))


def _topk_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    dim = call.dim(-1)
    return (_add_at(call, _along(_topk(call)[1], dim, call.x.shape[dim]), sent[0]),)


def _sort_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    dim = call.dim(-1)
    return (_add_at(call, _along(_sort(call)[1], dim, call.x.shape[dim]), sent[0]),)


INDEXING: Mapping[str, OpKernel] = {
    "gather": OpKernel(_gather, _gather_gradients),
    "index_select": OpKernel(_index_select, _index_select_gradients),
    "index": OpKernel(_index, _index_gradients),
    "scatter": OpKernel(_scatter, _scatter_gradients),
    "scatter_add": OpKernel(_scatter_add, _scatter_add_gradients),
    "topk": OpKernel(_topk, _topk_gradients),
    "sort": OpKernel(_sort, _sort_gradients),
}
