"""Kernels of ops that move elements."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from meshwright.runtime.jax.kinds.call import JaxOpCall, Kernel

A = jax.Array


def _slice(call: JaxOpCall) -> A:
    attrs = call.attrs
    dim, size = attrs["dim"], call.x.shape[attrs["dim"]]
    start, stop, step = slice(attrs["start"], attrs["end"], attrs["step"]).indices(size)
    return lax.slice_in_dim(call.x, start, max(start, stop), step, axis=dim)


def _split(call: JaxOpCall) -> list[A]:
    ends = list(accumulate(call.attrs["sizes"]))
    return jnp.split(call.x, ends[:-1], axis=call.attrs["dim"])


def _pad(call: JaxOpCall) -> A:
    pads = [tuple(pair) for pair in call.attrs["pads"]]
    mode = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[
        call.attrs["mode"]
    ]
    if mode != "constant":
        return jnp.pad(call.x, pads, mode=mode)
    config = [(before, behind, 0) for before, behind in pads]
    return lax.pad(call.x, jnp.asarray(call.attrs["value"], call.x.dtype), config)


def _index(call: JaxOpCall) -> A:
    source, *arrays = call.inputs
    indices: list[Any] = [slice(None)] * (max(call.attrs["dims"]) + 1)
    for dim, index in zip(call.attrs["dims"], arrays, strict=True):
        indices[dim] = index
    return source[tuple(indices)]


def _sort(call: JaxOpCall) -> list[A]:
    dim, descending = call.attrs["dim"], call.attrs["descending"]
    order = jnp.argsort(call.x, axis=dim, descending=descending)
    return [jnp.take_along_axis(call.x, order, axis=dim), order]


def _topk(call: JaxOpCall) -> list[A]:
    dim = call.attrs["dim"]
    values, places = lax.top_k(jnp.moveaxis(call.x, dim, -1), call.attrs["k"])
    outputs = [jnp.moveaxis(output, -1, dim) for output in (values, places)]
    return [output.astype(dtype) for output, dtype in zip(outputs, call.dtypes, strict=True)]


KERNELS: dict[str, Kernel] = {
    "identity": lambda call: call.x,
    "reshape": lambda call: call.x.reshape(call.shapes[0]),
    "transpose": lambda call: call.x.transpose(call.attrs["dims"]),
    "expand": lambda call: jnp.broadcast_to(call.x, call.shapes[0]),
    "slice": _slice,
    "split": _split,
    "concat": lambda call: jnp.concatenate(call.inputs, call.attrs["dim"]),
    "stack": lambda call: jnp.stack(call.inputs, call.attrs["dim"]),
    "pad": _pad,
    "roll": lambda call: jnp.roll(call.x, call.attrs["shifts"], call.attrs["dims"]),
    "flip": lambda call: jnp.flip(call.x, call.attrs["dims"]),
    "tril": lambda call: jnp.tril(call.x, call.attrs["diagonal"]),
    "triu": lambda call: jnp.triu(call.x, call.attrs["diagonal"]),
    "gather": lambda call: jnp.take_along_axis(call.x, call.inputs[1], axis=call.attrs["dim"]),
    "index_select": lambda call: jnp.take(call.x, call.inputs[1], axis=call.attrs["dim"]),
    "index": _index,
    "topk": _topk,
    "sort": _sort,
    "argmax": lambda call: jnp.argmax(
        call.x, call.attrs["dim"], keepdims=call.attrs["keepdim"]
    ).astype(call.dtypes[0]),
    "argmin": lambda call: jnp.argmin(
        call.x, call.attrs["dim"], keepdims=call.attrs["keepdim"]
    ).astype(call.dtypes[0]),
}
