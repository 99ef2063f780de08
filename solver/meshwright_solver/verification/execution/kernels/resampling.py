"""Pools and upsampling: kinds that change the spatial resolution channel by channel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall, NotExecutable
from meshwright_solver.verification.execution.kernels.kernel import OpKernel
from meshwright_solver.verification.execution.kernels.windows import Windows

Gradients = tuple[Array | None, ...]

_CUBIC = -0.75  # as in torch: the coefficient of Keys' cubic convolution


def _windows(call: KernelCall) -> Windows:
    spatial = call.x.ndim - 2
    kernel = call.per_dim("kernel", spatial, 2)
    stride = call.per_dim("stride", spatial, 1) if call.attrs.get("stride") else kernel
    before = call.per_dim("padding", spatial, 0)
    return Windows(call.x.shape[2:], call.shape[2:], kernel, stride, (1,) * spatial, before)


def _max_pool(call: KernelCall) -> Array:
    return np.asarray(_windows(call).read(call.x, -np.inf).max(axis=0))


def _max_pool_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    """The gradient goes to the first place of a window that has its maximum."""
    windows = _windows(call)
    best = windows.read(call.x, -np.inf).argmax(axis=0)
    numbers = np.arange(prod(windows.window)).reshape(-1, *[1] * best.ndim)
    return (windows.add((best == numbers) * sent[0]),)


def _avg_pool(call: KernelCall) -> Array:
    return np.asarray(_windows(call).read(call.x).mean(axis=0))


def _avg_pool_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    windows = _windows(call)
    count = prod(windows.window)
    return (windows.add(np.broadcast_to(sent[0] / count, (count, *sent[0].shape))),)


def _nearest(size: int, places: int, _corners: bool) -> Array:
    return np.eye(size)[np.arange(places) * size // places]


def _taps(size: int, places: int, corners: bool) -> Array:
    """The coordinate of each output place among the input places."""
    at = np.arange(places, dtype=np.float64)
    if corners:
        return at * ((size - 1) / (places - 1) if places > 1 else 0.0)
    return (at + 0.5) * size / places - 0.5


def _linear(size: int, places: int, corners: bool) -> Array:
    at = np.maximum(_taps(size, places, corners), 0.0)
    distance = np.abs(np.minimum(at, size - 1)[:, None] - np.arange(size))
    return np.asarray(np.maximum(0.0, 1 - distance))


def _cubic(size: int, places: int, corners: bool) -> Array:
    at = _taps(size, places, corners)
    first = np.floor(at).astype(np.int64)
    matrix = np.zeros((places, size))
    for offset in range(-1, 3):
        t = np.abs(at - (first + offset))
        near = (_CUBIC + 2) * t**3 - (_CUBIC + 3) * t**2 + 1
        far = _CUBIC * (t**3 - 5 * t**2 + 8 * t - 4)
        place = np.clip(first + offset, 0, size - 1)
        np.add.at(matrix, (np.arange(places), place), np.where(t <= 1, near, far))
    return matrix


_MODES: Mapping[str, Callable[[int, int, bool], Array]] = {
    "nearest": _nearest,
    **dict.fromkeys(("linear", "bilinear", "trilinear"), _linear),
    "bicubic": _cubic,
}


def _matrices(call: KernelCall) -> list[Array]:
    """For each spatial dim, the weight of each input place in each output place."""
    mode = str(call.attrs.get("mode", "nearest"))
    if mode not in _MODES:
        raise NotExecutable(call.kind, f"mode {mode!r}; known are {', '.join(_MODES)}")
    corners = bool(call.attrs.get("align_corners", False))
    sizes = zip(call.x.shape[2:], call.shape[2:], strict=True)
    return [_MODES[mode](size, places, corners) for size, places in sizes]


def _apply(x: Array, matrices: Sequence[Array]) -> Array:
    for dim, matrix in enumerate(matrices, 2):
        x = np.moveaxis(np.tensordot(matrix, x, axes=(1, dim)), 0, dim)
    return x


def _upsample(call: KernelCall) -> Array:
    return _apply(call.x, _matrices(call))


def _upsample_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (_apply(sent[0], [matrix.T for matrix in _matrices(call)]),)


RESAMPLING: Mapping[str, OpKernel] = {
    "max_pool": OpKernel(_max_pool, _max_pool_gradients),
    "avg_pool": OpKernel(_avg_pool, _avg_pool_gradients),
    "upsample": OpKernel(_upsample, _upsample_gradients),
}
