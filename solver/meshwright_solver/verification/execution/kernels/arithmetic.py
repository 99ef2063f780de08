"""Element-wise kinds of several inputs beyond the four operations; a scalar is in attrs.

Gradients are those of MindSpore. A rounded quotient has none; the incomplete gamma and beta
functions have that of x alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from scipy import special

from meshwright_solver.verification.execution.kernels.call import (
    Array,
    KernelCall,
    read_number,
    reduced_to,
    scaled,
)
from meshwright_solver.verification.execution.kernels.kernel import OpKernel, no_gradient
from meshwright_solver.verification.execution.kernels.unary import sigmoid

Gradients = tuple[Array | None, ...]
Function = Callable[..., Array]
Slopes = Callable[..., tuple[object, ...]]


def _sides(call: KernelCall) -> list[Array]:
    """All operands: the inputs, with a scalar `self` in front or `other` behind them."""
    sides = list(call.inputs)
    if "self" in call.attrs:
        sides.insert(0, np.asarray(read_number(call.attrs["self"], 1.0)))
    if "other" in call.attrs:
        sides.append(np.asarray(read_number(call.attrs["other"], 1.0)))
    return sides


def _values(call: KernelCall, *, function: Function) -> Array:
    return np.asarray(function(*_sides(call)))


def _slopes(
    call: KernelCall, outputs: Sequence[Array], sent: Sequence[Array], *, slopes: Slopes
) -> Gradients:
    """slopes: one derivative (or None) for each operand, from all operands and the output."""
    derivatives = slopes(*_sides(call), outputs[0])
    if "self" in call.attrs:
        derivatives = derivatives[1:]
    return tuple(
        None if slope is None else reduced_to(array.shape, scaled(sent[0], np.asarray(slope)))
        for array, slope in zip(call.inputs, derivatives, strict=False)
    )


def _kernel(function: Function, slopes: Slopes) -> OpKernel:
    return OpKernel(partial(_values, function=function), partial(_slopes, slopes=slopes))


def _flat(function: Function) -> OpKernel:
    return OpKernel(partial(_values, function=function), no_gradient)


def _floor_div(x: Array, y: Array) -> Array:
    return np.asarray(np.floor_divide(x, y))


def _trunc_div(x: Array, y: Array) -> Array:
    if x.dtype == np.float64 or y.dtype == np.float64:
        return np.trunc(x / y)
    return np.asarray(np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y)))


def _no_nan(x: Array, y: Array) -> Array:
    return np.where(y == 0, 0.0, x / np.where(y == 0, 1, y))


def _isclose(call: KernelCall) -> Array:
    x, y = call.inputs
    near = call.number("atol", 1e-8) + call.number("rtol", 1e-5) * np.abs(y)
    both_nan = np.isnan(x) & np.isnan(y) & bool(call.attrs.get("equal_nan", False))
    return np.asarray((np.abs(x - y) <= near) | (x == y) | both_nan)


def _part(x: Array) -> Array:
    """A number between 0 and 1, from any number."""
    x = np.abs(x)
    return np.where(x > 1, 1 / x, x)


def _part_slope(x: Array) -> Array:
    return np.where(np.abs(x) > 1, -1 / x**2, 1.0) * np.sign(x)


def _betainc(a: Array, b: Array, x: Array) -> Array:
    return np.asarray(special.betainc(np.abs(a), np.abs(b), _part(x)))


def _betainc_slopes(a: Array, b: Array, x: Array, _y: Array) -> tuple[object, ...]:
    a, b, p = np.abs(a), np.abs(b), _part(x)
    density = p ** (a - 1) * (1 - p) ** (b - 1) / special.beta(a, b)
    return None, None, density * _part_slope(x)


def _gamma_density(a: Array, x: Array) -> Array:
    a, x_ = np.abs(a), np.abs(x)
    power = (a - 1) * np.log(x_) - x_ - special.gammaln(a)
    return np.asarray(np.exp(power) * np.sign(x))


def _zeta(x: Array, q: Array) -> Array:
    return np.asarray(special.zeta(1 + np.abs(x - 1), np.abs(q)))


def _zeta_slopes(x: Array, q: Array, _y: Array) -> tuple[object, ...]:
    x = 1 + np.abs(x - 1)
    return None, -x * special.zeta(x + 1, np.abs(q)) * np.sign(q)


def _xlogy(x: Array, y: Array) -> Array:
    return np.asarray(special.xlogy(x, np.abs(y)))


def _cross_entropy(x: Array, z: Array) -> Array:
    return np.asarray(np.maximum(x, 0) - x * z + np.log1p(np.exp(-np.abs(x))))


def _addcmul(call: KernelCall) -> Array:
    x, a, b = call.inputs
    return np.asarray(x + call.number("value", 1.0) * a * b)


def _addcmul_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    x, a, b = call.inputs
    value = call.number("value", 1.0)
    parts = (sent[0], sent[0] * value * b, sent[0] * value * a)
    pairs = zip((x, a, b), parts, strict=True)
    return tuple(reduced_to(array.shape, part) for array, part in pairs)


def _weight(call: KernelCall) -> Array:
    weight = call.optional(2)
    return np.asarray(call.number("weight", 0.5)) if weight is None else weight


def _lerp(call: KernelCall) -> Array:
    start, end = call.inputs[:2]
    return np.asarray(start + _weight(call) * (end - start))


def _lerp_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    start, end = call.inputs[:2]
    weight = _weight(call)
    parts = (sent[0] * (1 - weight), sent[0] * weight, sent[0] * (end - start))
    pairs = zip(call.inputs, parts, strict=False)
    return tuple(reduced_to(array.shape, part) for array, part in pairs)


ARITHMETIC: Mapping[str, OpKernel] = {
    "atan2": _kernel(np.arctan2, lambda y, x, _: (x / (x**2 + y**2), -y / (x**2 + y**2))),
    "hypot": _kernel(np.hypot, lambda x, y, z: (x / z, y / z)),
    "squared_difference": _kernel(
        lambda x, y: (x - y) ** 2, lambda x, y, _: (2 * (x - y), -2 * (x - y))
    ),
    "remainder": _kernel(np.mod, lambda x, y, _: (1.0, -np.floor(x / y))),
    "fmod": _kernel(np.fmod, lambda x, y, _: (1.0, -np.trunc(x / y))),
    "floor_div": _flat(_floor_div),
    "trunc_div": _flat(_trunc_div),
    "div_no_nan": _kernel(_no_nan, lambda x, y, _: (_no_nan(np.ones(()), y), -_no_nan(x, y**2))),
    "mul_no_nan": _kernel(lambda x, y: np.where(y == 0, 0.0, x * y), lambda x, y, _: (y, x)),
    "xlogy": _kernel(_xlogy, lambda x, y, _: (np.log(np.abs(y)), x / y)),
    "xdivy": _kernel(lambda x, y: np.where(x == 0, 0.0, x / y), lambda x, y, _: (1 / y, -x / y**2)),
    "betainc": _kernel(_betainc, _betainc_slopes),
    "igamma": _kernel(
        lambda a, x: special.gammainc(np.abs(a), np.abs(x)),
        lambda a, x, _: (None, _gamma_density(a, x)),
    ),
    "igammac": _kernel(
        lambda a, x: special.gammaincc(np.abs(a), np.abs(x)),
        lambda a, x, _: (None, -_gamma_density(a, x)),
    ),
    "zeta": _kernel(_zeta, _zeta_slopes),
    "sigmoid_cross_entropy": _kernel(_cross_entropy, lambda x, z, _: (sigmoid(x) - z, -x)),
    "gcd": _flat(np.gcd),
    "left_shift": _flat(np.left_shift),
    "right_shift": _flat(np.right_shift),
    "nextafter": _flat(np.nextafter),
    "isclose": OpKernel(_isclose, no_gradient),
    "addcmul": OpKernel(_addcmul, _addcmul_gradients),
    "lerp": OpKernel(_lerp, _lerp_gradients),
}
