"""Kernels of products, convolutions, norms, attention and losses."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from meshwright.runtime.jax.kinds.call import JaxOpCall, Kernel

A = jax.Array


def _linear(call: JaxOpCall) -> A:
    weight = call.inputs[1].T if call.attrs["weight_layout"] == "nk" else call.inputs[1]
    result = call.x @ weight
    bias = call.optional(2)
    return result if bias is None else result + bias


def _visible(call: JaxOpCall, rows: int, columns: int, first_row: A | int) -> A:
    """Which keys each query sees by its position, [rows, columns]."""
    query, key = jnp.arange(rows)[:, None] + first_row, jnp.arange(columns)[None]
    visible = key <= query if call.attrs["causal"] else jnp.ones((rows, columns), jnp.bool_)
    if "window" in call.attrs:
        visible = visible & (jnp.abs(query - key) < call.attrs["window"])
    if "chunk" in call.attrs:
        visible = visible & (query // call.attrs["chunk"] == key // call.attrs["chunk"])
    return visible


def attention(call: JaxOpCall, first_row: A | int = 0) -> A:
    """Attention of the query rows from `first_row`; groups of query heads share keys and values."""
    query, key, value, *rest = call.inputs
    sinks = rest.pop() if call.attrs.get("sinks") else None
    mask = rest[0] if rest else None
    batch, heads, rows, width = query.shape
    groups, columns = key.shape[1], key.shape[2]
    scale = call.attrs["scale"]
    grouped = query.reshape(batch, groups, heads // groups, rows, width)
    scores = jnp.einsum("bgrsd,bgtd->bgrst", grouped, key)
    scores = scores * (width**-0.5 if scale is None else scale)
    softcap = call.attrs.get("softcap")
    if softcap is not None:
        scores = softcap * jnp.tanh(scores / softcap)
    if call.attrs["causal"] or "window" in call.attrs:
        scores = jnp.where(_visible(call, rows, columns, first_row), scores, -jnp.inf)
    if mask is not None:
        mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
        shape = (groups, heads // groups) if mask.shape[1] == heads else (1, 1)
        mask = mask.reshape(mask.shape[0], *shape, *mask.shape[2:])
        is_boolean = mask.dtype == jnp.bool_
        scores = jnp.where(mask, scores, -jnp.inf) if is_boolean else scores + mask
    if sinks is not None:
        column = sinks.astype(scores.dtype).reshape(1, groups, heads // groups, 1, 1)
        scores = jnp.concatenate(
            (scores, jnp.broadcast_to(column, (*scores.shape[:-1], 1))), axis=-1
        )
    shares = jax.nn.softmax(scores, axis=-1)[..., :columns]
    result = jnp.einsum("bgrst,bgtd->bgrsd", shares, value)
    return result.reshape(batch, heads, rows, value.shape[-1])


def rows_of_cross_entropy(logits: A, labels: A, ignored: int) -> A:
    """The cross entropy (r,) of every row of logits (r, v); 0 if the label is ignored."""
    counts = labels != ignored
    log_shares = jnp.take_along_axis(
        jax.nn.log_softmax(logits, axis=-1), jnp.where(counts, labels, 0)[:, None], axis=1
    )[:, 0]
    return -log_shares * counts


def _cross_entropy(call: JaxOpCall) -> A:
    logits, labels = call.inputs
    ignored = call.attrs["ignore_index"]
    flat = labels.reshape(-1)
    losses = rows_of_cross_entropy(logits.reshape(-1, logits.shape[-1]), flat, ignored)
    if call.attrs["reduction"] == "none":
        return losses.reshape(labels.shape)
    total = losses.sum()
    return total / (flat != ignored).sum() if call.attrs["reduction"] == "mean" else total


def _rms_norm(call: JaxOpCall) -> A:
    x, weight = call.x, call.optional(1)
    wide = x.astype(call.attrs.get("compute", x.dtype))
    dims = _last(call)
    scale = lax.rsqrt(jnp.mean(wide**2, axis=dims, keepdims=True) + call.attrs["eps"])
    if weight is None:
        return (wide * scale).astype(x.dtype)
    if offset := call.attrs.get("weight_offset"):
        return (wide * scale * (weight.astype(wide.dtype) + offset)).astype(x.dtype)
    return weight * (wide * scale).astype(x.dtype)


def _layer_norm(call: JaxOpCall) -> A:
    result = _standardize(call.x, _last(call), call.attrs["eps"])
    weight, bias = call.optional(1), call.optional(2)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


def _batch_norm(call: JaxOpCall) -> A:
    """Batch norm, with batch statistics in training. Running statistics stay unchanged."""
    x, weight, bias = call.inputs[:3]
    shape = [-1 if d == 1 else 1 for d in range(x.ndim)]
    if call.attrs["training"]:
        result = _standardize(x, tuple(d for d in range(x.ndim) if d != 1), call.attrs["eps"])
    else:
        mean, variance = (statistic.reshape(shape) for statistic in call.inputs[3:5])
        result = (x - mean) * lax.rsqrt(variance + call.attrs["eps"])
    return result * weight.reshape(shape) + bias.reshape(shape)


def _group_norm(call: JaxOpCall) -> A:
    x, weight, bias = call.inputs
    grouped = x.reshape(x.shape[0], call.attrs["groups"], -1)
    result = _standardize(grouped, (2,), call.attrs["eps"]).reshape(x.shape)
    shape = [-1 if d == 1 else 1 for d in range(x.ndim)]
    return result * weight.reshape(shape) + bias.reshape(shape)


def _standardize(x: A, dims: tuple[int, ...], eps: float) -> A:
    mean = x.mean(dims, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(dims, keepdims=True) + eps)


def _last(call: JaxOpCall) -> tuple[int, ...]:
    return tuple(range(-int(call.attrs["dims"]), 0))


def _rotary(call: JaxOpCall) -> A:
    x, cos, sin = call.inputs
    first, second = jnp.split(x, 2, axis=-1)
    rotated = jnp.concatenate((-second, first), axis=-1)
    return x * cos[:, None] + rotated * sin[:, None]


def _convolution(call: JaxOpCall) -> A:
    attrs, space = call.attrs, call.x.ndim - 2
    result = lax.conv_general_dilated(
        call.x,
        call.inputs[1],
        _each(attrs["stride"], space),
        [(pad, pad) for pad in _each(attrs["padding"], space)],
        rhs_dilation=_each(attrs["dilation"], space),
        feature_group_count=attrs["groups"],
    )
    bias = call.optional(2)
    return result if bias is None else result + bias.reshape(-1, *[1] * space)


def _max_pool(call: JaxOpCall) -> A:
    return lax.reduce_window(call.x, -jnp.inf, lax.max, *_window(call))


def _avg_pool(call: JaxOpCall) -> A:
    window, strides, pads = _window(call)
    total: A = lax.reduce_window(call.x, 0.0, lax.add, window, strides, pads)
    count = 1
    for size in window:
        count *= size
    return total / count


def _window(call: JaxOpCall) -> tuple[tuple[int, ...], tuple[int, ...], list[tuple[int, int]]]:
    attrs, space = call.attrs, call.x.ndim - 2
    kernel, stride = _each(attrs["kernel"], space), _each(attrs["stride"], space)
    pads = [(pad, pad) for pad in _each(attrs["padding"], space)]
    return (1, 1, *kernel), (1, 1, *stride), [(0, 0), (0, 0), *pads]


def _each(value: int | Sequence[int], dims: int) -> tuple[int, ...]:
    return (value,) * dims if isinstance(value, int) else tuple(value)


KERNELS: dict[str, Kernel] = {
    "linear": _linear,
    "matmul": lambda call: call.x @ call.inputs[1],
    "attention": attention,
    "conv": _convolution,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "embedding": lambda call: call.x[call.inputs[1]],
    "cross_entropy": _cross_entropy,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "batch_norm": _batch_norm,
    "group_norm": _group_norm,
    "softmax": lambda call: jax.nn.softmax(call.x, axis=call.attrs["dim"]),
    "log_softmax": lambda call: jax.nn.log_softmax(call.x, axis=call.attrs["dim"]),
    "rotary": _rotary,
}
