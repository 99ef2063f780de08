"""Norms, softmax and cross entropy of which every device has a part of what they are over.

Sums over all parts are reduced together, forward, and so are their gradients. Mean and variance are
those of the sums of x and of its square. Of a row of logits the maximum is reduced first, then the
sum of powers and the label's logit together; backward needs nothing of other devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax

from meshwright.runtime.jax.kinds import Call
from meshwright.runtime.jax.redistribute import summed

A = jax.Array
Reduce = Callable[[A, Literal["sum", "max"]], A]  # over the devices that share what is reduced
Normalise = Callable[[Call, Reduce, int], A]  # the call, over whom, how many parts


def _sum(part: A, reduce: Reduce) -> A:
    return summed(part, lambda own: reduce(own, "sum"))


def _centred(x: A, dims: tuple[int, ...], reduce: Reduce, parts: int, eps: float) -> A:
    """Mean 0 and variance 1 over some dims of all parts."""
    count = parts * prod(x.shape[d] for d in dims)
    sums = jnp.stack([x.sum(dims, keepdims=True), (x**2).sum(dims, keepdims=True)])
    mean, square = _sum(sums, reduce) / count
    return (x - mean) * lax.rsqrt(square - mean**2 + eps)


def _batch_norm(call: Call, reduce: Reduce, parts: int) -> A:
    x, weight, bias = call.inputs[:3]
    shape = [-1 if d == 1 else 1 for d in range(x.ndim)]
    dims = tuple(d for d in range(x.ndim) if d != 1)
    own = _centred(x, dims, reduce, parts, call.attrs["eps"])
    return own * weight.reshape(shape) + bias.reshape(shape)


def _layer_norm(call: Call, reduce: Reduce, parts: int) -> A:
    own = _centred(call.x, _last(call), reduce, parts, call.attrs["eps"])
    weight, bias = call.optional(1), call.optional(2)
    own = own if weight is None else own * weight
    return own if bias is None else own + bias


def _rms_norm(call: Call, reduce: Reduce, parts: int) -> A:
    x, weight = call.inputs
    wide = x.astype(call.attrs.get("compute", x.dtype))
    dims = _last(call)
    count = parts * prod(x.shape[d] for d in dims)
    square = _sum((wide**2).sum(dims, keepdims=True), reduce) / count
    return weight * (wide * lax.rsqrt(square + call.attrs["eps"])).astype(x.dtype)


def _softmax(call: Call, reduce: Reduce, _parts: int) -> A:
    powers, total = _powers(call, reduce)
    return jnp.exp(powers) / total


def _log_softmax(call: Call, reduce: Reduce, _parts: int) -> A:
    powers, total = _powers(call, reduce)
    return powers - jnp.log(total)


def _powers(call: Call, reduce: Reduce) -> tuple[A, A]:
    """What goes into the exponential, and the sum of that over all parts."""
    dim = call.attrs["dim"]
    powers = call.x - reduce(lax.stop_gradient(call.x).max(dim, keepdims=True), "max")
    return powers, _sum(jnp.exp(powers).sum(dim, keepdims=True), reduce)


def _last(call: Call) -> tuple[int, ...]:
    return tuple(d + call.x.ndim for d in range(-int(call.attrs["dims"]), 0))


NORMALISED: Mapping[str, Normalise] = {
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
}


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def rows_of_class_parts(logits: A, place: A, counts: A, reduce: Reduce) -> A:
    """The loss of every row of logits [r, v], zero where it does not count.

    place: of a row's label among the classes held here; outside of them where it is elsewhere.
    """
    return _rows(logits, place, counts, reduce)[0]


def _rows(logits: A, place: A, counts: A, reduce: Reduce) -> tuple[A, tuple[A, A, A]]:
    largest = reduce(logits.max(axis=1), "max")
    powers = jnp.exp(logits - largest[:, None])
    hot = jnp.arange(logits.shape[1]) == place[:, None]
    picked = (logits * hot).sum(axis=1)
    total, label = reduce(jnp.stack([powers.sum(axis=1), picked]), "sum")
    rows = (jnp.log(total) + largest - label) * counts
    return rows, (powers / total[:, None], place, counts)


def _rows_back(_reduce: Reduce, kept: tuple[A, A, A], sent: A) -> tuple[A, None, None]:
    shares, place, counts = kept
    hot = jnp.arange(shares.shape[1]) == place[:, None]
    return (shares - hot) * (sent * counts)[:, None], None, None


rows_of_class_parts.defvjp(_rows, _rows_back)
