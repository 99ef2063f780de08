"""Element-wise kinds of one input.

Values are random, so a logarithm or a root may get a negative number. They are continued evenly
(log |x|, sqrt |x|), since NaN would hide differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall, scaled
from meshwright_solver.verification.execution.kernels.kernel import Backward, OpKernel, no_gradient

Values = Callable[[Array, KernelCall], Array]
Slope = Callable[[Array, Array, KernelCall], Array]  # of input, output, call

_ERF = np.frompyfunc(math.erf, 1, 1)
_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
_GELU_CUBIC = 0.044715  # paper: Hendrycks and Gimpel, Gaussian Error Linear Units, section 2
_GELU_SIGMOID = 1.702  # paper: the same section


def erf(x: Array) -> Array:
    return np.asarray(_ERF(x), dtype=np.float64)


def sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def element_wise(values: Values, slope: Slope) -> OpKernel:
    """A kernel of the values at x and the slope there, a function of input, output and call."""

    def forward(call: KernelCall) -> Array:
        return values(call.x, call)

    def backward(call: KernelCall, outputs: Sequence[Array], sent: Sequence[Array]) -> tuple[Array]:
        return (scaled(sent[0], slope(call.x, outputs[0], call)),)

    return OpKernel(forward, backward)


def flat(values: Callable[[Array], Array]) -> OpKernel:
    """A kernel without a gradient."""

    return OpKernel(lambda call: np.asarray(values(call.x)), no_gradient)


def _gelu(x: Array, call: KernelCall) -> Array:
    if call.attrs.get("approximate", "none") == "sigmoid":
        return np.asarray(x * sigmoid(_GELU_SIGMOID * x))
    if call.attrs.get("approximate", "none") == "tanh":
        return np.asarray(0.5 * x * (1 + np.tanh(_gelu_inner(x))))
    return np.asarray(0.5 * x * (1 + erf(x / math.sqrt(2))))


def _gelu_inner(x: Array) -> Array:
    return np.asarray(math.sqrt(2 / math.pi) * (x + _GELU_CUBIC * x**3))


def _gelu_slope(x: Array, _y: Array, call: KernelCall) -> Array:
    if call.attrs.get("approximate", "none") == "sigmoid":
        s = sigmoid(_GELU_SIGMOID * x)
        return np.asarray(s * (1 + _GELU_SIGMOID * x * (1 - s)))
    if call.attrs.get("approximate", "none") == "tanh":
        t = np.tanh(_gelu_inner(x))
        inner = math.sqrt(2 / math.pi) * (1 + 3 * _GELU_CUBIC * x**2)
        return np.asarray(0.5 * (1 + t) + 0.5 * x * (1 - t**2) * inner)
    density = np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
    return 0.5 * (1 + erf(x / math.sqrt(2))) + x * density


def _silu_slope(x: Array, _y: Array, _call: KernelCall) -> Array:
    s = sigmoid(x)
    return np.asarray(s * (1 + x * (1 - s)))


def _softplus(x: Array, call: KernelCall) -> Array:
    beta, threshold = call.number("beta", 1.0), call.number("threshold", 20.0)
    return np.where(x * beta > threshold, x, np.logaddexp(0, beta * x) / beta)


def _softplus_slope(x: Array, _y: Array, call: KernelCall) -> Array:
    beta, threshold = call.number("beta", 1.0), call.number("threshold", 20.0)
    return np.where(x * beta > threshold, 1.0, sigmoid(beta * x))


def _mish_slope(x: Array, _y: Array, _call: KernelCall) -> Array:
    t = np.tanh(np.logaddexp(0, x))
    return np.asarray(t + x * (1 - t**2) * sigmoid(x))


def _elu(x: Array, call: KernelCall) -> Array:
    return np.where(x > 0, x, call.number("alpha", 1.0) * np.expm1(x))


def _elu_slope(x: Array, _y: Array, call: KernelCall) -> Array:
    return np.where(x > 0, 1.0, call.number("alpha", 1.0) * np.exp(x))


def _leaky(x: Array, call: KernelCall) -> Array:
    return np.where(x > 0, x, call.number("negative_slope", 0.01) * x)


def _leaky_slope(x: Array, _y: Array, call: KernelCall) -> Array:
    return np.where(x > 0, 1.0, call.number("negative_slope", 0.01))


def _clamp(x: Array, call: KernelCall) -> Array:
    for name, bound, open_end in (("min", np.maximum, -math.inf), ("max", np.minimum, math.inf)):
        if call.attrs.get(name) is not None:
            x = bound(x, call.number(name, open_end))
    return x


def _clamp_slope(x: Array, _y: Array, call: KernelCall) -> Array:
    low, high = call.number("min", -math.inf), call.number("max", math.inf)
    return ((x >= low) & (x <= high)).astype(np.float64)


def _cast(call: KernelCall) -> Array:
    dtype = str(call.attrs.get("dtype", "float64"))
    if dtype == "bool":
        return call.x.astype(np.bool_)
    if "int" in dtype:
        return call.x.astype(np.int64)
    return call.x.astype(np.float64)


def _dropout(call: KernelCall) -> list[Array]:
    """Keep all elements, whatever the share; a second output is a mask of ones."""
    return [call.x, np.ones(call.x.shape, dtype=np.bool_)]


def _pass_through(
    _call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> tuple[Array | None]:
    return (sent[0],)


def _cast_gradient(
    _call: KernelCall, outputs: Sequence[Array], sent: Sequence[Array]
) -> tuple[Array | None]:
    return (sent[0] if outputs[0].dtype == np.float64 else None,)


_PASS_THROUGH: Backward = _pass_through

UNARY: Mapping[str, OpKernel] = {
    "neg": element_wise(lambda x, _: -x, lambda x, *_: np.full(x.shape, -1.0)),
    "abs": element_wise(lambda x, _: np.abs(x), lambda x, *_: np.sign(x)),
    "square": element_wise(lambda x, _: x * x, lambda x, *_: 2 * x),
    "exp": element_wise(lambda x, _: np.exp(x), lambda _x, y, _: y),
    "expm1": element_wise(lambda x, _: np.expm1(x), lambda _x, y, _: y + 1),
    "log": element_wise(lambda x, _: np.log(np.abs(x)), lambda x, *_: 1 / x),
    "log1p": element_wise(lambda x, _: np.log(np.abs(1 + x)), lambda x, *_: 1 / (1 + x)),
    "sqrt": element_wise(lambda x, _: np.sqrt(np.abs(x)), lambda x, y, _: np.sign(x) / (2 * y)),
    "rsqrt": element_wise(lambda x, _: 1 / np.sqrt(np.abs(x)), lambda x, y, _: -y / (2 * x)),
    "reciprocal": element_wise(lambda x, _: 1 / x, lambda _x, y, _: -y * y),
    "relu": element_wise(lambda x, _: np.maximum(x, 0), lambda x, *_: (x > 0).astype(np.float64)),
    "tanh": element_wise(lambda x, _: np.tanh(x), lambda _x, y, _: 1 - y * y),
    "sigmoid": element_wise(lambda x, _: sigmoid(x), lambda _x, y, _: y * (1 - y)),
    "cos": element_wise(lambda x, _: np.cos(x), lambda x, *_: -np.sin(x)),
    "sin": element_wise(lambda x, _: np.sin(x), lambda x, *_: np.cos(x)),
    "tan": element_wise(lambda x, _: np.tan(x), lambda _x, y, _: 1 + y * y),
    "erf": element_wise(lambda x, _: erf(x), lambda x, *_: _TWO_OVER_ROOT_PI * np.exp(-(x**2))),
    "gelu": element_wise(_gelu, _gelu_slope),
    "silu": element_wise(lambda x, _: x * sigmoid(x), _silu_slope),
    "mish": element_wise(lambda x, _: x * np.tanh(np.logaddexp(0, x)), _mish_slope),
    "softplus": element_wise(_softplus, _softplus_slope),
    "elu": element_wise(_elu, _elu_slope),
    "leaky_relu": element_wise(_leaky, _leaky_slope),
    "hardsigmoid": element_wise(
        lambda x, _: np.clip(x / 6 + 0.5, 0, 1),
        lambda x, *_: ((x > -3) & (x < 3)) / 6,
    ),
    "hardswish": element_wise(
        lambda x, _: x * np.clip(x / 6 + 0.5, 0, 1),
        lambda x, *_: np.where(x <= -3, 0.0, np.where(x >= 3, 1.0, x / 3 + 0.5)),
    ),
    "clamp": element_wise(_clamp, _clamp_slope),
    "stop_gradient": flat(np.array),
    "sign": flat(np.sign),
    "floor": flat(np.floor),
    "ceil": flat(np.ceil),
    "round": flat(np.round),
    "isnan": flat(np.isnan),
    "isinf": flat(np.isinf),
    "logical_not": flat(np.logical_not),
    "bitwise_not": flat(np.invert),
    "cast": OpKernel(_cast, _cast_gradient),
    "dropout": OpKernel(_dropout, _PASS_THROUGH),
}
