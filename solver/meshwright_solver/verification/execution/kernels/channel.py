"""Kinds that scale channels, split a dim into halves, or replace single elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meshwright_solver.verification.execution.kernels.call import (
    Array,
    KernelCall,
    Shape,
    reduced_to,
)
from meshwright_solver.verification.execution.kernels.kernel import OpKernel, no_gradient
from meshwright_solver.verification.execution.kernels.unary import sigmoid

Gradients = tuple[Array | None, ...]


def _channel_shape(call: KernelCall) -> Shape:
    """The second input's shape, to broadcast with the first input."""
    dim = call.dim(min(1, call.x.ndim - 1))
    return tuple(call.inputs[1].size if d == dim else 1 for d in range(call.x.ndim))


def _along_channels(call: KernelCall) -> Array:
    return call.inputs[1].reshape(_channel_shape(call))


def _bias_add(call: KernelCall) -> Array:
    return np.asarray(call.x + _along_channels(call))


def _bias_add_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    bias = reduced_to(_channel_shape(call), sent[0])
    return sent[0], bias.reshape(call.inputs[1].shape)


def _prelu(call: KernelCall) -> Array:
    return np.where(call.x > 0, call.x, call.x * _along_channels(call))


def _prelu_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    weight = reduced_to(_channel_shape(call), np.where(call.x > 0, 0.0, sent[0] * call.x))
    gradient = np.where(call.x > 0, sent[0], sent[0] * _along_channels(call))
    return gradient, weight.reshape(call.inputs[1].shape)


def _swiglu(call: KernelCall) -> Array:
    gate, value = np.split(call.x, 2, axis=call.dim(-1))
    return np.asarray(gate * sigmoid(gate) * value)


def _swiglu_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    gate, value = np.split(call.x, 2, axis=call.dim(-1))
    s = sigmoid(gate)
    both = (sent[0] * value * s * (1 + gate * (1 - s)), sent[0] * gate * s)
    return (np.concatenate(both, axis=call.dim(-1)),)


def _polar(call: KernelCall) -> Array:
    size, angle = np.broadcast_arrays(*call.inputs)
    return np.stack([size * np.cos(angle), size * np.sin(angle)], axis=-1)


def _polar_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    size, angle = call.inputs
    real, imaginary = sent[0][..., 0], sent[0][..., 1]
    along = real * np.cos(angle) + imaginary * np.sin(angle)
    across = size * (imaginary * np.cos(angle) - real * np.sin(angle))
    return reduced_to(size.shape, along), reduced_to(angle.shape, across)


def _assign(call: KernelCall) -> Array:
    return np.broadcast_to(call.inputs[1].astype(call.x.dtype), call.x.shape)


def _assign_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return None, reduced_to(call.inputs[1].shape, sent[0])


def _keep(call: KernelCall) -> Array:
    return call.inputs[1].astype(np.float64) / call.number("keep_prob", 1.0)


def _dropout_mask(call: KernelCall) -> Array:
    return np.asarray(call.x * _keep(call))


def _dropout_mask_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return sent[0] * _keep(call), None


def _full_like(call: KernelCall) -> Array:
    return np.full(call.x.shape, call.number("value", 0)).astype(call.x.dtype)


def _damage(call: KernelCall) -> Array:
    """The factor of every element: 1, except for the damaged element in a selected step.

    A flipped bit is the sign, whatever bit attrs name.
    """
    factor = np.ones(call.x.size)
    passed = int(call.inputs[2].reshape(-1)[0]) - int(call.number("start", 0))
    steps = [int(step) for step in call.attrs.get("steps", [1])]
    cycle = call.attrs.get("error_mode", "cycle") == "cycle"
    if passed >= 0 and (passed % steps[0] == 0 if cycle else passed in steps):
        multiplies = str(call.attrs.get("flip_mode", "bitflip")).startswith("multiply")
        place = int(call.inputs[1].reshape(-1)[0]) % call.x.size
        factor[place] = call.number("multiply_factor", 1.0) if multiplies else -1.0
    return factor.reshape(call.x.shape)


def _fault_injection(call: KernelCall) -> Array:
    return np.asarray(call.x * _damage(call))


def _fault_injection_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (sent[0] * _damage(call),)


CHANNEL: Mapping[str, OpKernel] = {
    "bias_add": OpKernel(_bias_add, _bias_add_gradients),
    "prelu": OpKernel(_prelu, _prelu_gradients),
    "swiglu": OpKernel(_swiglu, _swiglu_gradients),
    "polar": OpKernel(_polar, _polar_gradients),
    "assign": OpKernel(_assign, _assign_gradients),
    "dropout_mask": OpKernel(_dropout_mask, _dropout_mask_gradients),
    "full_like": OpKernel(_full_like, no_gradient),
    "fault_injection": OpKernel(_fault_injection, _fault_injection_gradients),
}
