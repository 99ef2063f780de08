"""Kinds that write at places that an index names.

attrs `reduce` names the update: update (the last write wins), add, sub, mul, div, max or min. S is
the product of all factors at one place, and n the number of candidates that equal its extreme:

    mul    y = x S    gradient of x: g S      of an update u: g x S / u
    div    y = x / S  gradient of x: g / S    of an update u: -g y / u
    max    y = best   gradient: g / n for each candidate, x among them, that is the best
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from meshwright_solver.verification.execution.kernels.call import (
    Array,
    KernelCall,
    NotExecutable,
    scaled,
)
from meshwright_solver.verification.execution.kernels.kernel import OpKernel

Gradients = tuple[Array | None, ...]
Place = tuple[Any, ...]
PlaceOf = Callable[[KernelCall], Place]

_COMBINED: Mapping[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
}


def _reduce(call: KernelCall, default: str) -> str:
    reduce = str(call.attrs.get("reduce", default))
    if reduce != "update" and reduce not in _COMBINED:
        known = ", ".join(["update", *_COMBINED])
        raise NotExecutable(call.kind, f"reduce {reduce!r}; known are {known}")
    return reduce


def _updates(call: KernelCall) -> Array:
    return call.inputs[-1] * call.number("alpha", 1)


def _write(call: KernelCall, *, place_of: PlaceOf, default: str) -> Array:
    reduce, place, updates = _reduce(call, default), place_of(call), _updates(call)
    result = call.x.copy()
    if reduce == "update":
        result[place] = updates
    else:
        _COMBINED[reduce].at(result, place, updates)
    return result


def _product(call: KernelCall, place: Place) -> Array:
    whole = np.ones(call.x.shape)
    np.multiply.at(whole, place, _updates(call))
    return whole


def _gradients(
    call: KernelCall,
    outputs: Sequence[Array],
    sent: Sequence[Array],
    *,
    place_of: PlaceOf,
    default: str,
) -> Gradients:
    reduce, place = _reduce(call, default), place_of(call)
    g, y, u = sent[0], outputs[0], _updates(call)
    if reduce == "update":
        gradient, update = g.copy(), g[place]
        gradient[place] = 0.0
    elif reduce in ("add", "sub"):
        gradient, update = g, g[place] if reduce == "add" else -g[place]
    elif reduce == "mul":
        s = _product(call, place)
        gradient, update = g * s, scaled(g[place], (call.x * s)[place] / u)
    elif reduce == "div":
        gradient, update = scaled(g, 1 / _product(call, place)), scaled(g[place], -y[place] / u)
    else:
        best, x_is_best = (u == y[place]).astype(np.float64), (call.x == y).astype(np.float64)
        count = x_is_best.copy()
        np.add.at(count, place, best)
        share = scaled(g, 1 / count)
        gradient, update = share * x_is_best, share[place] * best
    middle = [None] * (len(call.inputs) - 2)
    return gradient, *middle, update * call.number("alpha", 1)


def _rows(call: KernelCall) -> Place:
    return (call.inputs[1].astype(np.int64) % call.x.shape[0],)


def _points(call: KernelCall) -> Place:
    index = call.inputs[1].astype(np.int64)
    return tuple(index[..., d] % call.x.shape[d] for d in range(index.shape[-1]))


def _slices(call: KernelCall) -> Place:
    dim = call.dim(0)
    index = call.inputs[1] if len(call.inputs) > 2 else np.asarray(call.attrs["indices"])
    written = call.inputs[-1].shape[dim]
    return (*(slice(None),) * dim, np.resize(index.astype(np.int64), written) % call.x.shape[dim])


def _kernel(place_of: PlaceOf, default: str) -> OpKernel:
    return OpKernel(
        partial(_write, place_of=place_of, default=default),
        partial(_gradients, place_of=place_of, default=default),
    )


def _read_points(call: KernelCall) -> Array:
    return np.asarray(call.x[_points(call)])


def _read_points_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    whole = np.zeros(call.x.shape)
    np.add.at(whole, _points(call), sent[0])
    return whole, None


def _masked_rows(call: KernelCall) -> tuple[Array, Place]:
    """Whether each row is replaced, and the index of the row that replaces it."""
    mask, rows = call.inputs[1].astype(np.bool_), call.inputs[2]
    order = np.cumsum(mask, axis=1) - 1
    replaced = mask & (order < rows.shape[1])
    return replaced, (np.nonzero(replaced)[0], order[replaced])


def _masked_scatter(call: KernelCall) -> Array:
    replaced, place = _masked_rows(call)
    result = call.x.copy()
    result[replaced] = call.inputs[2][place]
    return result


def _masked_scatter_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    replaced, place = _masked_rows(call)
    kept, rows = sent[0].copy(), np.zeros(call.inputs[2].shape)
    kept[replaced] = 0.0
    rows[place] = sent[0][replaced]
    return kept, None, rows


SCATTER: Mapping[str, OpKernel] = {
    "masked_scatter": OpKernel(_masked_scatter, _masked_scatter_gradients),
    "scatter_rows": _kernel(_rows, "update"),
    "scatter_nd": _kernel(_points, "update"),
    "index_add": _kernel(_slices, "add"),
    "index_copy": _kernel(_slices, "update"),
    "gather_nd": OpKernel(_read_points, _read_points_gradients),
}
