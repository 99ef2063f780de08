"""Convolutions with 1 to 3 spatial dims, and their transposes.

A convolution y = w * x has three products: `_correlate` (y), `_spread` (the gradient of x) and
`_weight` (the gradient of w). Each is a matrix product over the elements that the windows read. A
transposed convolution is `_spread`. The number of groups follows from the channels of the weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall
from meshwright_solver.verification.execution.kernels.kernel import OpKernel
from meshwright_solver.verification.execution.kernels.windows import Windows

Gradients = tuple[Array | None, ...]


def _rows(read: Array, groups: int) -> Array:
    """[w, n, c, ...] -> [g, c/g * w, n * places]."""
    window, batch, channels = read.shape[:3]
    moved = read.reshape(window, batch, groups, channels // groups, -1).transpose(2, 3, 0, 1, 4)
    return moved.reshape(groups, channels // groups * window, -1)


def _channels(y: Array, groups: int) -> Array:
    """[n, o, ...] -> [g, o/g, n * places]."""
    batch, channels = y.shape[:2]
    moved = y.reshape(batch, groups, channels // groups, -1).transpose(1, 2, 0, 3)
    return moved.reshape(groups, channels // groups, -1)


def _matrices(weight: Array, groups: int) -> Array:
    """[o, c/g, ...] -> [g, o/g, c/g * w]."""
    return weight.reshape(groups, weight.shape[0] // groups, -1)


def _correlate(x: Array, weight: Array, windows: Windows, groups: int) -> Array:
    result = _matrices(weight, groups) @ _rows(windows.read(x), groups)
    result = result.reshape(weight.shape[0], x.shape[0], *windows.places)
    return np.swapaxes(result, 0, 1)


def _spread(y: Array, weight: Array, windows: Windows, groups: int) -> Array:
    rows = np.swapaxes(_matrices(weight, groups), 1, 2) @ _channels(y, groups)
    window = prod(windows.window)
    channels = groups * weight.shape[1]
    columns = rows.reshape(channels, window, y.shape[0], *windows.places)
    return windows.add(np.moveaxis(columns, (1, 2), (0, 1)))


def _weight(x: Array, y: Array, weight: Array, windows: Windows, groups: int) -> Array:
    gradient = _channels(y, groups) @ np.swapaxes(_rows(windows.read(x), groups), 1, 2)
    return np.asarray(gradient.reshape(weight.shape))


def _windows(call: KernelCall, size: Sequence[int], places: Sequence[int]) -> Windows:
    window = call.inputs[1].shape[2:]
    spatial = len(window)
    dilation = call.per_dim("dilation", spatial, 1)
    if call.attrs.get("padding") == "same":
        before = tuple(d * (w - 1) // 2 for d, w in zip(dilation, window, strict=True))
    else:
        before = call.per_dim("padding", spatial, 0)
    stride = call.per_dim("stride", spatial, 1)
    return Windows(tuple(size), tuple(places), window, stride, dilation, before)


def _with_bias(call: KernelCall, result: Array) -> Array:
    bias = call.optional(2)
    return result if bias is None else result + bias.reshape(-1, *[1] * (result.ndim - 2))


def _bias_gradient(sent: Array) -> Array:
    return np.asarray(sent.sum(axis=(0, *range(2, sent.ndim))))


def _conv(call: KernelCall) -> Array:
    weight = call.inputs[1]
    windows = _windows(call, call.x.shape[2:], call.shape[2:])
    groups = call.x.shape[1] // weight.shape[1]
    return _with_bias(call, _correlate(call.x, weight, windows, groups))


def _conv_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    weight = call.inputs[1]
    windows = _windows(call, call.x.shape[2:], call.shape[2:])
    groups = call.x.shape[1] // weight.shape[1]
    gradients = (
        _spread(sent[0], weight, windows, groups),
        _weight(call.x, sent[0], weight, windows, groups),
        _bias_gradient(sent[0]),
    )
    return gradients[: len(call.inputs)]


def _conv_transpose(call: KernelCall) -> Array:
    weight = call.inputs[1]
    windows = _windows(call, call.shape[2:], call.x.shape[2:])
    groups = call.shape[1] // weight.shape[1]
    return _with_bias(call, _spread(call.x, weight, windows, groups))


def _conv_transpose_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    weight = call.inputs[1]
    windows = _windows(call, call.shape[2:], call.x.shape[2:])
    groups = call.shape[1] // weight.shape[1]
    gradients = (
        _correlate(sent[0], weight, windows, groups),
        _weight(sent[0], call.x, weight, windows, groups),
        _bias_gradient(sent[0]),
    )
    return gradients[: len(call.inputs)]


CONVOLUTIONS: Mapping[str, OpKernel] = {
    "conv": OpKernel(_conv, _conv_gradients),
    "conv_transpose": OpKernel(_conv_transpose, _conv_transpose_gradients),
}
