"""Kernels of element-wise kinds, reductions and creation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from meshwright.capture.interpreter.run import Kernel, TorchOpCall

T = torch.Tensor

_UNARY = (
    "neg", "abs", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "relu", "tanh", "sigmoid",
    "cos", "sin", "tan", "erf", "sign", "floor", "ceil", "round", "isnan", "isinf", "isfinite",
    "logical_not",
    "bitwise_not",
)  # fmt: skip
_BINARY = (
    "add", "sub", "mul", "div", "eq", "ne", "lt", "gt", "le", "ge", "logical_and", "logical_or",
    "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "maximum", "minimum",
)  # fmt: skip
_ACTIVATIONS = (
    "silu", "gelu", "hardswish", "hardsigmoid", "mish", "leaky_relu", "elu", "softplus",
)  # fmt: skip
_REDUCTIONS = ("sum", "mean", "amax", "amin", "any", "all")


def _unary(run: TorchOpCall, *, function: Callable[[T], T]) -> T:
    return function(run.x)


def _activation(run: TorchOpCall, *, function: Callable[..., T]) -> T:
    return function(run.x, **run.attrs)


def _binary(run: TorchOpCall, *, function: Callable[[T, Any], T]) -> T:
    other = run.optional(1)
    if other is not None:
        return function(run.x, other)
    scalar = run.attrs["other"]
    if run.op.kind.startswith(("logical", "maximum", "minimum")):
        scalar = torch.tensor(scalar, dtype=run.x.dtype)
    return function(run.x, scalar)


def _reduction(run: TorchOpCall, *, function: Callable[..., T]) -> T:
    if not run.attrs["dims"]:
        return run.x
    return function(run.x, dim=run.attrs["dims"], keepdim=run.attrs["keepdim"])


def _product(run: TorchOpCall) -> T:
    result = run.x
    for dim in sorted(run.attrs["dims"], reverse=True):
        result = result.prod(dim=dim, keepdim=run.attrs["keepdim"])
    return result


def _power(run: TorchOpCall) -> T:
    exponent = run.optional(1)
    return torch.pow(run.x, run.attrs["exponent"] if exponent is None else exponent)


def _where(run: TorchOpCall) -> T:
    condition, *tensors = run.inputs
    rest = iter(tensors)
    selected, other = (
        run.attrs[name] if name in run.attrs else next(rest) for name in ("self", "other")
    )
    return torch.where(condition, selected, other)


def _masked_fill(run: TorchOpCall) -> T:
    fill = run.optional(2)
    return run.x.masked_fill(run.inputs[1], run.attrs["value"] if fill is None else fill)


def _dropout(run: TorchOpCall) -> list[T]:
    results: tuple[T, T] = torch.native_dropout(run.x, run.attrs["p"], True)
    return list(results[: len(run.shapes)])


def _arange(run: TorchOpCall) -> T:
    attrs = run.attrs
    return torch.arange(attrs["start"], attrs["end"], attrs["step"], dtype=run.dtypes[0])


KERNELS: dict[str, Kernel] = {
    **{name: partial(_unary, function=getattr(torch, name)) for name in _UNARY},
    "stop_gradient": partial(_unary, function=torch.Tensor.detach),
    **{name: partial(_binary, function=getattr(torch, name)) for name in _BINARY},
    **{name: partial(_reduction, function=getattr(torch, name)) for name in _REDUCTIONS},
    "floor_div": partial(_binary, function=partial(torch.div, rounding_mode="floor")),
    "trunc_div": partial(_binary, function=partial(torch.div, rounding_mode="trunc")),
    "prod": _product,
    "pow": _power,
    **{name: partial(_activation, function=getattr(F, name)) for name in _ACTIVATIONS},
    "cast": lambda run: run.x.to(run.attrs["dtype"]),
    "clamp": lambda run: run.x.clamp(**run.attrs),
    "dropout": _dropout,
    "where": _where,
    "masked_fill": _masked_fill,
    "cumsum": lambda run: run.x.cumsum(run.attrs["dim"], dtype=run.dtypes[0]),
    "arange": _arange,
    "full": lambda run: torch.full(run.shapes[0], run.attrs["value"], dtype=run.dtypes[0]),
    "one_hot": lambda run: F.one_hot(run.x, run.attrs["classes"]),
}
