"""Scaled dot-product attention and rotary position embedding.

Query heads are ordered (group, head of the group): group i of r heads reads key and value head i.
In causal attention, query position i attends to key positions up to i. A `window` leaves keys at
a distance of less than so many positions, a `chunk` those of the same chunk of so many positions.
With a softcap, scores become softcap * tanh(scores / softcap). Sinks, one score a head, take weight
and add nothing. A row without any key gives zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meshwright_solver.verification.execution.kernels.call import (
    Array,
    KernelCall,
    is_float,
    reduced_to,
)
from meshwright_solver.verification.execution.kernels.kernel import OpKernel
from meshwright_solver.verification.execution.kernels.softmax import softmax_of

Gradients = tuple[Array | None, ...]


def _query_by_group(call: KernelCall) -> Array:
    """The query as [b, g, r, s, d]."""
    batch, heads, length, width = call.x.shape
    groups = call.inputs[1].shape[1]
    return call.x.reshape(batch, groups, heads // groups, length, width)


def _scale(call: KernelCall) -> float:
    return float(call.number("scale", call.x.shape[-1] ** -0.5))


def _sinks(call: KernelCall) -> Array | None:
    """The sinks as [g, r, 1, 1], to go with the scores."""
    if not call.attrs.get("sinks"):
        return None
    groups = call.inputs[1].shape[1]
    return call.inputs[-1].reshape(groups, -1, 1, 1)


def _mask(call: KernelCall) -> Array | None:
    has_mask = len(call.inputs) - bool(call.attrs.get("sinks")) > 3
    return call.inputs[3] if has_mask else None


def _seen(call: KernelCall, rows: int, columns: int) -> Array:
    """Which keys a query sees by its position."""
    query, key = np.arange(rows)[:, None], np.arange(columns)[None]
    seen = key <= query if call.attrs.get("causal") else np.ones((rows, columns), np.bool_)
    if "window" in call.attrs:
        seen = seen & (np.abs(query - key) < call.attrs["window"])
    if "chunk" in call.attrs:
        seen = seen & (query // call.attrs["chunk"] == key // call.attrs["chunk"])
    return np.asarray(seen)


def _capped(call: KernelCall) -> tuple[Array, Array | float]:
    """Scores before masks, and their slope by the products of queries and keys."""
    query, key = _query_by_group(call), call.inputs[1][:, :, None]
    scores = _scale(call) * (query @ np.swapaxes(key, -1, -2))
    softcap = call.attrs.get("softcap")
    if softcap is None:
        return scores, 1.0
    share = np.tanh(scores / softcap)
    return softcap * share, 1 - share**2


def _weights(call: KernelCall) -> tuple[Array, Array]:
    """What each query position takes of each key position, and of the sinks.

    The shapes are [b, g, r, s, t] and [b, g, r, s, 1]; the second is 0 without sinks.
    """
    scores, _ = _capped(call)
    mask = _mask(call)
    if mask is not None:
        bias = mask if is_float(mask) else np.where(mask.astype(np.bool_), 0.0, -np.inf)
        full = np.broadcast_to(bias, (*call.x.shape[:3], scores.shape[-1]))
        scores = scores + full.reshape(scores.shape)
    if call.attrs.get("causal") or "window" in call.attrs:
        scores = np.where(_seen(call, *scores.shape[-2:]), scores, -np.inf)
    sinks = _sinks(call)
    if sinks is None:
        return softmax_of(scores, -1), np.zeros((*scores.shape[:-1], 1))
    column = np.broadcast_to(sinks, (*scores.shape[:-1], 1))
    weights = softmax_of(np.concatenate([scores, column], axis=-1), -1)
    return weights[..., :-1], weights[..., -1:]


def _attention(call: KernelCall) -> Array:
    result = _weights(call)[0] @ call.inputs[2][:, :, None]
    return np.asarray(result.reshape(call.shape))


def _attention_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    query, key, value = (
        _query_by_group(call),
        call.inputs[1][:, :, None],
        call.inputs[2][:, :, None],
    )
    weights, taken = _weights(call)
    gradient = sent[0].reshape(*query.shape[:-1], value.shape[-1])
    value_gradient = (np.swapaxes(weights, -1, -2) @ gradient).sum(axis=2)
    of_weights = gradient @ np.swapaxes(value, -1, -2)
    mean = (weights * of_weights).sum(axis=-1, keepdims=True)
    masked = weights * (of_weights - mean)
    scores = masked * _capped(call)[1]
    query_gradient = _scale(call) * (scores @ key)
    key_gradient = _scale(call) * (np.swapaxes(scores, -1, -2) @ query).sum(axis=2)
    gradients: list[Array | None] = [
        query_gradient.reshape(call.x.shape),
        key_gradient,
        value_gradient,
    ]
    mask = _mask(call)
    if mask is not None:
        gradients.append(reduced_to(mask.shape, masked.reshape(*call.x.shape[:3], -1)))
    if call.attrs.get("sinks"):
        gradients.append(-(taken * mean).sum(axis=(0, 3, 4)).reshape(call.inputs[-1].shape))
    return tuple(gradients)


def _tables(call: KernelCall) -> tuple[Array, Array]:
    """Cosines and sines, to broadcast with [b, h, s, d]."""
    cosine, sine = call.inputs[1:3]
    return (cosine[:, None], sine[:, None]) if cosine.ndim == 3 else (cosine, sine)


def rotate_half(x: Array) -> Array:
    """(-second half, first half) of the last dim."""
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([-second, first], axis=-1)


def _rotary(call: KernelCall) -> Array:
    cosine, sine = _tables(call)
    return np.asarray(call.x * cosine + rotate_half(call.x) * sine)


def _rotary_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    cosine, sine = _tables(call)
    return (
        sent[0] * cosine - rotate_half(sent[0] * sine),
        reduced_to(cosine.shape, sent[0] * call.x).reshape(call.inputs[1].shape),
        reduced_to(sine.shape, sent[0] * rotate_half(call.x)).reshape(call.inputs[2].shape),
    )


ATTENTION: Mapping[str, OpKernel] = {
    "attention": OpKernel(_attention, _attention_gradients),
    "rotary": OpKernel(_rotary, _rotary_gradients),
}
