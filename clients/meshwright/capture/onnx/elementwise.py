"""Converters of element-wise operators."""

from __future__ import annotations

import math
from functools import partial

from meshwright.capture.node_arithmetic import binary, cast, plain, same, unary
from meshwright.capture.node_call import Converter, NodeCall
from meshwright.capture.program import Value

_UNARY = (
    "Abs", "Neg", "Exp", "Log", "Sqrt", "Relu", "Tanh", "Sigmoid", "Erf", "Sin", "Cos", "Tan",
    "Floor", "Ceil", "Round", "Sign", "Mish", "HardSwish",
)  # fmt: skip
_BINARY = {
    "Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge",
    "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor",
}  # fmt: skip


def _variadic(call: NodeCall, *, kind: str) -> None:
    """A variadic operator as a chain of binary ops."""
    values = call.present(*range(len(call.inputs)))
    if len(values) == 1:
        return call.alias(values[0])
    if len(values) == 2:
        return binary(call, kind=kind)
    result = values[0]
    for value in values[1:-1]:
        result = call.step(kind, [result, value], _broadcast(result, value))
    return call.op(kind, [result, values[-1]])


def _broadcast(first: Value, second: Value) -> tuple[int, ...]:
    rank = max(first.rank, second.rank)
    sides = [(1,) * (rank - value.rank) + value.shape for value in (first, second)]
    return tuple(b if a == 1 else a for a, b in zip(*sides, strict=True))


def _power(call: NodeCall) -> None:
    exponent = call.scalar(1)
    if exponent is None:
        return call.op("pow", [call.value(0), call.value(1)])
    return call.op("pow", [call.x], exponent=plain(exponent))


def _reciprocal(call: NodeCall) -> None:
    call.op("pow", [call.x], exponent=-1)


def _activation(call: NodeCall, *, kind: str, attr: str, default: float) -> None:
    call.op(kind, [call.x], **{attr: call.attrs.get("alpha", default)})


def _softplus(call: NodeCall) -> None:
    call.op("softplus", [call.x], beta=1, threshold=20)


def _gelu(call: NodeCall) -> None:
    call.op("gelu", [call.x], approximate=call.attrs.get("approximate", "none"))


def _hard_sigmoid(call: NodeCall) -> None:
    alpha, beta = call.attrs.get("alpha", 0.2), call.attrs.get("beta", 0.5)
    if not math.isclose(alpha, 1 / 6, rel_tol=1e-5) or beta != 0.5:
        return call.unknown()
    return call.op("hardsigmoid", [call.x])


def _clip(call: NodeCall) -> None:
    limits = {
        name: call.attrs.get(name, call.scalar(place)) for place, name in ((1, "min"), (2, "max"))
    }
    if any(
        limits[name] is None and call.present(place) for place, name in ((1, "min"), (2, "max"))
    ):
        return call.unknown()
    return call.op("clamp", [call.x], **{k: plain(v) for k, v in limits.items() if v is not None})


def _where(call: NodeCall) -> None:
    inputs = [call.value(0)]
    scalars: dict[str, float | bool | str] = {}
    for place, name in ((1, "self"), (2, "other")):
        number = call.scalar(place)
        if number is None or len(scalars) == 1:
            inputs.append(call.value(place))
        else:
            scalars[name] = plain(number)
    call.op("where", inputs, **scalars)


def _dropout(call: NodeCall) -> None:
    """Dropout with its mask in training; an alias in an inference export."""
    ratio = call.scalar(1) if call.present(1) else 0.5
    if not call.scalar(2) or not ratio:
        return call.alias(call.x)
    mask = call.results[1] if len(call.results) > 1 else Value("", call.x.shape, "bool")
    call.results = [call.out, mask]
    return call.op("dropout", [call.x], p=ratio)


CONVERTERS: dict[str, Converter] = {
    **{name: partial(unary, kind=name.lower()) for name in _UNARY},
    "Not": partial(unary, kind="logical_not"),
    "IsNaN": partial(unary, kind="isnan"),
    **{name: partial(binary, kind=kind) for name, kind in _BINARY.items()},
    "Sub": partial(binary, kind="sub"),
    "Div": partial(binary, kind="div"),
    "Add": partial(binary, kind="add"),
    "Mul": partial(binary, kind="mul"),
    "Sum": partial(_variadic, kind="add"),
    "Max": partial(_variadic, kind="maximum"),
    "Min": partial(_variadic, kind="minimum"),
    "Pow": _power,
    "Reciprocal": _reciprocal,
    "LeakyRelu": partial(_activation, kind="leaky_relu", attr="negative_slope", default=0.01),
    "Elu": partial(_activation, kind="elu", attr="alpha", default=1.0),
    "Softplus": _softplus,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "Cast": cast,
    "CastLike": cast,
    "Clip": _clip,
    "Where": _where,
    "Dropout": _dropout,
    "Identity": same,
}
