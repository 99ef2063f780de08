"""Kernels of matrix products, convolutions, norms and losses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from meshwright.capture.interpreter.run import Kernel, TorchOpCall

T = torch.Tensor
_ByDims = tuple[Callable[..., T], Callable[..., T], Callable[..., T]]
_CONVOLUTIONS: _ByDims = (F.conv1d, F.conv2d, F.conv3d)
_TRANSPOSED: _ByDims = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
_MAX_POOLS: _ByDims = (F.max_pool1d, F.max_pool2d, F.max_pool3d)
_MEAN_POOLS: _ByDims = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)


def _linear(run: TorchOpCall) -> T:
    weight = run.inputs[1] if run.attrs["weight_layout"] == "nk" else run.inputs[1].T
    return F.linear(run.x, weight, run.optional(2))


def _convolution(run: TorchOpCall, *, functions: _ByDims) -> T:
    return functions[run.x.dim() - 3](run.x, run.inputs[1], run.optional(2), **run.attrs)


def _pool(run: TorchOpCall, *, functions: _ByDims) -> T:
    attrs = run.attrs
    function = functions[run.x.dim() - 3]
    return function(run.x, attrs["kernel"], stride=attrs["stride"], padding=attrs["padding"])


def _upsample(run: TorchOpCall) -> T:
    options: dict[str, Any] = {}
    if run.attrs["mode"] != "nearest":
        options["align_corners"] = run.attrs.get("align_corners", False)
    target = list(run.shapes[0][2:])
    return F.interpolate(run.x, size=target, mode=run.attrs["mode"], **options)


def _cross_entropy(run: TorchOpCall) -> T:
    logits, labels = run.inputs
    loss = F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]),
        labels.reshape(-1),
        reduction=run.attrs["reduction"],
        ignore_index=run.attrs["ignore_index"],
    )
    return loss.reshape(labels.shape) if run.attrs["reduction"] == "none" else loss


def _rms_norm(run: TorchOpCall) -> T:
    x, weight = run.x, run.optional(1)
    wide = x.to(run.attrs.get("compute", x.dtype))
    dims = tuple(range(-int(run.attrs["dims"]), 0))
    scale = torch.rsqrt(wide.pow(2).mean(dims, keepdim=True) + run.attrs["eps"])
    if weight is None:
        return (wide * scale).to(x.dtype)
    if offset := run.attrs.get("weight_offset"):
        shifted: T = weight.to(wide.dtype) + offset
        return (wide * scale * shifted).to(x.dtype)
    return weight * (wide * scale).to(x.dtype)


def _layer_norm(run: TorchOpCall) -> T:
    shape = run.x.shape[-int(run.attrs["dims"]) :]
    return F.layer_norm(run.x, shape, run.optional(1), run.optional(2), eps=run.attrs["eps"])


def _batch_norm(run: TorchOpCall) -> T:
    """Batch norm with batch statistics in training; running statistics are not updated."""
    x, weight, bias = run.inputs[:3]
    training = run.attrs["training"]
    mean, var = (None, None) if training else (run.optional(3), run.optional(4))
    return F.batch_norm(x, mean, var, weight, bias, training, eps=run.attrs["eps"])


def _group_norm(run: TorchOpCall) -> T:
    x, weight, bias = run.inputs
    return F.group_norm(x, run.attrs["groups"], weight, bias, eps=run.attrs["eps"])


def _rotary(run: TorchOpCall) -> T:
    x, cos, sin = run.inputs
    first, second = x.chunk(2, dim=-1)
    rotated = torch.cat((-second, first), dim=-1)
    return x * cos.unsqueeze(1) + rotated * sin.unsqueeze(1)


KERNELS: dict[str, Kernel] = {
    "linear": _linear,
    "matmul": lambda run: run.x @ run.inputs[1],
    "conv": partial(_convolution, functions=_CONVOLUTIONS),
    "conv_transpose": partial(_convolution, functions=_TRANSPOSED),
    "max_pool": partial(_pool, functions=_MAX_POOLS),
    "avg_pool": partial(_pool, functions=_MEAN_POOLS),
    "upsample": _upsample,
    "embedding": lambda run: F.embedding(run.inputs[1], run.x),
    "cross_entropy": _cross_entropy,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "batch_norm": _batch_norm,
    "group_norm": _group_norm,
    "softmax": lambda run: run.x.softmax(run.attrs["dim"]),
    "log_softmax": lambda run: run.x.log_softmax(run.attrs["dim"]),
    "rotary": _rotary,
}
