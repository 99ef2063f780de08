"""Scaled dot-product attention and rotary position embedding.

Query heads are ordered (group, head of the group): group i of r heads reads key and value head i.
In causal attention query position i attends to key positions up to i. A row without any key gives
zeros.
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
from meshwright_solver.verification.execution.kernels.softmax import softmax_gradient, softmax_of

Gradients = tuple[Array | None, ...]


def _query_by_group(call: KernelCall) -> Array:
    """The query as [b, g, r, s, d]."""
    batch, heads, length, width = call.x.shape
    groups = call.inputs[1].shape[1]
    return call.x.reshape(batch, groups, heads // groups, length, width)


def _scale(call: KernelCall) -> float:
    return float(call.number("scale", call.x.shape[-1] ** -0.5))


def _weights(call: KernelCall) -> Array:
    """The attention weights of each query position, [b, g, r, s, t]."""
    query, key = _query_by_group(call), call.inputs[1][:, :, None]
    scores = _scale(call) * (query @ np.swapaxes(key, -1, -2))
    mask = call.optional(3)
    if mask is not None:
        bias = mask if is_float(mask) else np.where(mask.astype(np.bool_), 0.0, -np.inf)
        full = np.broadcast_to(bias, (*call.x.shape[:3], key.shape[-2]))
        scores = scores + full.reshape(scores.shape)
    if call.attrs.get("causal"):
        seen = np.tri(scores.shape[-2], scores.shape[-1], dtype=np.bool_)
        scores = np.where(seen, scores, -np.inf)
    return softmax_of(scores, -1)


def _attention(call: KernelCall) -> Array:
    result = _weights(call) @ call.inputs[2][:, :, None]
    return np.asarray(result.reshape(call.shape))


def _attention_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    query, key, value = (
        _query_by_group(call),
        call.inputs[1][:, :, None],
        call.inputs[2][:, :, None],
    )
    weights = _weights(call)
    gradient = sent[0].reshape(*query.shape[:-1], value.shape[-1])
    value_gradient = (np.swapaxes(weights, -1, -2) @ gradient).sum(axis=2)
    scores = softmax_gradient(weights, gradient @ np.swapaxes(value, -1, -2), -1)
    query_gradient = _scale(call) * (scores @ key)
    key_gradient = _scale(call) * (np.swapaxes(scores, -1, -2) @ query).sum(axis=2)
    gradients: list[Array | None] = [
        query_gradient.reshape(call.x.shape),
        key_gradient,
        value_gradient,
    ]
    mask = call.optional(3)
    if mask is not None:
        gradients.append(reduced_to(mask.shape, scores.reshape(*call.x.shape[:3], -1)))
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
