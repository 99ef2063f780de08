"""Kernels of element-wise ops, reductions and constructors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from meshwright.runtime.jax.kinds.call import JaxOpCall, Kernel

A = jax.Array

_UNARY: dict[str, Callable[[A], A]] = {
    **{
        name: getattr(jnp, name)
        for name in (
            "abs", "exp", "expm1", "log", "log1p", "sqrt", "tanh", "cos", "sin", "tan", "sign",
            "floor", "ceil", "round", "isnan", "isinf", "isfinite", "logical_not",
        )
    },
    "neg": jnp.negative, "rsqrt": lax.rsqrt, "relu": jax.nn.relu, "sigmoid": jax.nn.sigmoid,
    "erf": lax.erf, "bitwise_not": jnp.bitwise_not, "silu": jax.nn.silu,
    "stop_gradient": lax.stop_gradient,
    "hardswish": jax.nn.hard_swish, "hardsigmoid": jax.nn.hard_sigmoid, "mish": jax.nn.mish,
}  # fmt: skip
_BINARY: dict[str, Callable[[Any, Any], A]] = {
    "add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "eq": jnp.equal,
    "ne": jnp.not_equal, "lt": jnp.less, "gt": jnp.greater, "le": jnp.less_equal,
    "ge": jnp.greater_equal, "logical_and": jnp.logical_and, "logical_or": jnp.logical_or,
    "logical_xor": jnp.logical_xor, "bitwise_and": jnp.bitwise_and, "bitwise_or": jnp.bitwise_or,
    "bitwise_xor": jnp.bitwise_xor, "maximum": jnp.maximum, "minimum": jnp.minimum,
    "floor_div": jnp.floor_divide,
}  # fmt: skip
_REDUCTIONS: dict[str, Callable[..., A]] = {
    "sum": jnp.sum, "mean": jnp.mean, "amax": jnp.max, "amin": jnp.min, "any": jnp.any,
    "all": jnp.all, "prod": jnp.prod,
}  # fmt: skip


def _unary(call: JaxOpCall, *, function: Callable[[A], A]) -> A:
    return function(call.x)


def _binary(call: JaxOpCall, *, function: Callable[[Any, Any], A]) -> A:
    other = call.optional(1)
    return function(call.x, call.attrs["other"] if other is None else other)


def _divide(call: JaxOpCall) -> A:
    """Division. If the result is an integer, it rounds towards zero."""
    other = call.optional(1)
    divisor = jnp.asarray(call.attrs["other"], call.x.dtype) if other is None else other
    if jnp.issubdtype(call.dtypes[0], jnp.integer):
        return lax.div(*jnp.broadcast_arrays(call.x, divisor))
    return jnp.divide(call.x, divisor)


def _truncated_division(call: JaxOpCall) -> A:
    other = call.optional(1)
    divisor = jnp.asarray(call.attrs["other"], call.x.dtype) if other is None else other
    if jnp.issubdtype(call.x.dtype, jnp.integer):
        return lax.div(*jnp.broadcast_arrays(call.x, divisor))
    return jnp.trunc(call.x / divisor)


def _reduction(call: JaxOpCall, *, function: Callable[..., A]) -> A:
    dims = tuple(call.attrs["dims"])
    return function(call.x, axis=dims, keepdims=call.attrs["keepdim"]) if dims else call.x


def _power(call: JaxOpCall) -> A:
    exponent = call.optional(1)
    if exponent is not None:
        return jnp.power(call.x, exponent)
    number = call.attrs["exponent"]
    whole = int(number) == number
    return lax.integer_pow(call.x, int(number)) if whole else jnp.power(call.x, number)


def _where(call: JaxOpCall) -> A:
    condition, *tensors = call.inputs
    rest = iter(tensors)
    first, second = (
        jnp.asarray(call.attrs[name], call.dtypes[0]) if name in call.attrs else next(rest)
        for name in ("self", "other")
    )
    return jnp.where(condition, first, second)


def _masked_fill(call: JaxOpCall) -> A:
    fill = call.optional(2)
    value = jnp.asarray(call.attrs["value"], call.x.dtype) if fill is None else fill
    return jnp.where(call.inputs[1], value, call.x)


def _gelu(call: JaxOpCall) -> A:
    return jax.nn.gelu(call.x, approximate=call.attrs.get("approximate", "none") == "tanh")


def _softplus(call: JaxOpCall) -> A:
    beta, threshold = call.attrs.get("beta", 1), call.attrs.get("threshold", 20)
    scaled = call.x * beta
    small = jnp.minimum(scaled, threshold)
    return jnp.where(scaled > threshold, call.x, jnp.log1p(jnp.exp(small)) / beta)


def _clamp(call: JaxOpCall) -> A:
    return jnp.clip(call.x, call.attrs.get("min"), call.attrs.get("max"))


def _arange(call: JaxOpCall) -> A:
    attrs = call.attrs
    return jnp.arange(attrs["start"], attrs["end"], attrs["step"], dtype=call.dtypes[0])


KERNELS: dict[str, Kernel] = {
    **{name: partial(_unary, function=function) for name, function in _UNARY.items()},
    **{name: partial(_binary, function=function) for name, function in _BINARY.items()},
    **{name: partial(_reduction, function=function) for name, function in _REDUCTIONS.items()},
    "div": _divide,
    "trunc_div": _truncated_division,
    "pow": _power,
    "gelu": _gelu,
    "leaky_relu": lambda call: jax.nn.leaky_relu(call.x, call.attrs.get("negative_slope", 0.01)),
    "elu": lambda call: jax.nn.elu(call.x, call.attrs.get("alpha", 1.0)),
    "softplus": _softplus,
    "cast": lambda call: call.x.astype(call.dtypes[0]),
    "clamp": _clamp,
    "where": _where,
    "masked_fill": _masked_fill,
    "cumsum": lambda call: jnp.cumsum(call.x, call.attrs["dim"], dtype=call.dtypes[0]),
    "arange": _arange,
    "full": lambda call: jnp.full(call.shapes[0], call.attrs["value"], call.dtypes[0]),
    "one_hot": lambda call: jax.nn.one_hot(call.x, call.attrs["classes"], dtype=call.dtypes[0]),
}
