"""Softmax and its logarithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall
from meshwright_solver.verification.execution.kernels.kernel import OpKernel

Gradients = tuple[Array | None, ...]


def softmax_of(x: Array, dim: int) -> Array:
    """Softmax along a dim; zeros where all of a row is minus infinity."""
    highest = x.max(axis=dim, keepdims=True)
    power = np.exp(x - np.where(np.isneginf(highest), 0.0, highest))
    total = power.sum(axis=dim, keepdims=True)
    return np.asarray(power / np.where(total == 0, 1.0, total))


def softmax_gradient(y: Array, gradient: Array, dim: int) -> Array:
    """The gradient of the input, from the output and its gradient."""
    return np.asarray(y * (gradient - (gradient * y).sum(axis=dim, keepdims=True)))


def log_softmax_of(x: Array, dim: int) -> Array:
    shifted = x - x.max(axis=dim, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=dim, keepdims=True)))


def _softmax(call: KernelCall) -> Array:
    return softmax_of(call.x, call.dim(-1))


def _softmax_gradients(
    call: KernelCall, outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (softmax_gradient(outputs[0], sent[0], call.dim(-1)),)


def _log_softmax(call: KernelCall) -> Array:
    return log_softmax_of(call.x, call.dim(-1))


def _log_softmax_gradients(
    call: KernelCall, outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    total = sent[0].sum(axis=call.dim(-1), keepdims=True)
    return (sent[0] - np.exp(outputs[0]) * total,)


SOFTMAX: Mapping[str, OpKernel] = {
    "softmax": OpKernel(_softmax, _softmax_gradients),
    "log_softmax": OpKernel(_log_softmax, _log_softmax_gradients),
}
