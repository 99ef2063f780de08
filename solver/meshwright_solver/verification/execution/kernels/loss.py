"""Losses.

A mean divides by the full extent, or by `KernelCall.denominator` where a device has only some of
the rows. Rows that a device does not have must not count: a cross entropy gets the ignored label
there, and the other losses are zero for zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall, reduced_to
from meshwright_solver.verification.execution.kernels.kernel import OpKernel
from meshwright_solver.verification.execution.kernels.softmax import log_softmax_of

Gradients = tuple[Array | None, ...]

IGNORED_LABEL = -100
_LEAST_LOG = -100.0  # as in torch, so that a loss stays finite


def ignored_label(call: KernelCall) -> int:
    """The label of the rows that a cross entropy leaves out."""
    return int(call.number("ignore_index", IGNORED_LABEL))


def _share(call: KernelCall, count: float) -> float:
    """The weight of an element's loss in the result."""
    if call.attrs.get("reduction", "mean") != "mean":
        return 1.0
    return 1 / max(1.0, count if call.denominator is None else call.denominator)


def _total(call: KernelCall, losses: Array, count: float) -> Array:
    if call.attrs.get("reduction", "mean") == "none":
        return losses.reshape(call.shape)
    return np.asarray(losses.sum() * _share(call, count)).reshape(call.shape)


def _labels(call: KernelCall) -> tuple[Array, Array]:
    """Class numbers [..., 1], modulo the classes, and a mask of the rows that count."""
    labels = call.inputs[1].astype(np.int64)
    valid = labels != ignored_label(call)
    return (labels % call.x.shape[-1])[..., None], valid


def _cross_entropy(call: KernelCall) -> Array:
    labels, valid = _labels(call)
    picked = np.take_along_axis(log_softmax_of(call.x, -1), labels, axis=-1)[..., 0]
    return _total(call, np.where(valid, -picked, 0.0), float(valid.sum()))


def _cross_entropy_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    labels, valid = _labels(call)
    gradient = np.exp(log_softmax_of(call.x, -1))
    taken = np.take_along_axis(gradient, labels, axis=-1)
    np.put_along_axis(gradient, labels, taken - 1, axis=-1)
    whole = call.attrs.get("reduction", "mean") == "none"
    each = sent[0].reshape(valid.shape) if whole else sent[0].reshape([1] * valid.ndim)
    rows = np.where(valid, each * _share(call, float(valid.sum())), 0.0)
    return (gradient * rows[..., None], None)


def _spread(call: KernelCall, sent: Array) -> Array:
    shape = np.broadcast_shapes(*(array.shape for array in call.inputs))
    each = sent.reshape(call.shape if call.attrs.get("reduction") == "none" else ())
    return np.broadcast_to(each * _share(call, float(np.prod(shape))), shape)


def _squared_error(call: KernelCall) -> Array:
    losses = (call.x - call.inputs[1]) ** 2
    return _total(call, losses, losses.size)


def _squared_error_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    whole = 2 * (call.x - call.inputs[1]) * _spread(call, sent[0])
    return reduced_to(call.x.shape, whole), reduced_to(call.inputs[1].shape, -whole)


def _logs(call: KernelCall) -> tuple[Array, Array]:
    """log p and log(1 - p) of probabilities, bounded below."""
    p = np.clip(call.x, 0.0, 1.0)
    return np.maximum(np.log(p), _LEAST_LOG), np.maximum(np.log1p(-p), _LEAST_LOG)


def _binary_cross_entropy(call: KernelCall) -> Array:
    """The loss of probabilities against targets, with optional weights."""
    target, weight = call.inputs[1], call.optional(2)
    positive, negative = _logs(call)
    losses = -(target * positive + (1 - target) * negative)
    return _total(call, losses if weight is None else losses * weight, losses.size)


def _binary_cross_entropy_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    p, target, weight = call.x, call.inputs[1], call.optional(2)
    positive, negative = _logs(call)
    each = _spread(call, sent[0])
    whole = each if weight is None else each * weight
    slope = (p - target) / np.maximum(p * (1 - p), 1e-12)
    gradients: list[Array | None] = [
        reduced_to(p.shape, whole * slope),
        reduced_to(target.shape, whole * (negative - positive)),
    ]
    if weight is not None:
        losses = -(target * positive + (1 - target) * negative)
        gradients.append(reduced_to(weight.shape, each * losses))
    return tuple(gradients)


def _softmax_cross_entropy(call: KernelCall) -> list[Array]:
    """The losses of the rows against probabilities, and the gradient of their sum by the logits."""
    log_p = log_softmax_of(call.x, -1)
    return [-(call.inputs[1] * log_p).sum(axis=-1), np.exp(log_p) - call.inputs[1]]


def _softmax_cross_entropy_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    """Gradients from the first output; the second output is a gradient and has none."""
    log_p, labels, each = log_softmax_of(call.x, -1), call.inputs[1], sent[0][..., None]
    return each * (np.exp(log_p) * labels.sum(axis=-1, keepdims=True) - labels), -each * log_p


def _target(call: KernelCall) -> tuple[Array, Array]:
    """Target probabilities and their logarithms; log 0 counts as 0, as its weight is 0."""
    target = call.inputs[1]
    if call.attrs.get("log_target", False):
        return np.exp(target), target
    return target, np.where(target > 0, np.log(np.where(target > 0, target, 1.0)), 0.0)


def _divergence_share(call: KernelCall) -> float:
    if call.attrs.get("reduction", "mean") == "batchmean":
        return 1.0 / int(call.x.shape[0])
    return _share(call, float(call.x.size))


def _divergence(call: KernelCall) -> Array:
    """target * (log target - x), where x holds logarithms."""
    target, logarithm = _target(call)
    losses = target * (logarithm - call.x)
    if call.attrs.get("reduction", "mean") == "none":
        return np.asarray(losses).reshape(call.shape)
    return np.asarray(losses.sum() * _divergence_share(call)).reshape(call.shape)


def _divergence_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    target, logarithm = _target(call)
    each = sent[0].reshape(call.x.shape if call.attrs.get("reduction") == "none" else ())
    each = each * _divergence_share(call)
    slope = logarithm - call.x + 1
    slope = (
        target * slope if call.attrs.get("log_target", False) else np.where(target > 0, slope, 0)
    )
    return -each * target, each * slope


LOSSES: Mapping[str, OpKernel] = {
    "softmax_cross_entropy": OpKernel(_softmax_cross_entropy, _softmax_cross_entropy_gradients),
    "kl_div": OpKernel(_divergence, _divergence_gradients),
    "cross_entropy": OpKernel(_cross_entropy, _cross_entropy_gradients),
    "mse_loss": OpKernel(_squared_error, _squared_error_gradients),
    "binary_cross_entropy": OpKernel(_binary_cross_entropy, _binary_cross_entropy_gradients),
}
