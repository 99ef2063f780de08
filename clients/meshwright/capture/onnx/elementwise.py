"""Operators that work element by element."""

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


def _several(call: NodeCall, *, kind: str) -> None:
    """Of any number, two by two."""
    values = call.given(*range(len(call.inputs)))
    if len(values) == 1:
        return call.alias(values[0])
    if len(values) == 2:
        return binary(call, kind=kind)
    made = values[0]
    for value in values[1:-1]:
        made = call.step(kind, [made, value], _broadcast(made, value))
    return call.op(kind, [made, values[-1]])


def _broadcast(one: Value, other: Value) -> tuple[int, ...]:
    rank = max(one.rank, other.rank)
    sides = [(1,) * (rank - value.rank) + value.shape for value in (one, other)]
    return tuple(b if a == 1 else a for a, b in zip(*sides, strict=True))


def _power(call: NodeCall) -> None:
    exponent = call.scalar(1)
    if exponent is None:
        return call.op("pow", [call.value(0), call.value(1)])
    return call.op("pow", [call.x], exponent=plain(exponent))


def _reciprocal(call: NodeCall) -> None:
    call.op("pow", [call.x], exponent=-1)


def _shaped(call: NodeCall, *, kind: str, attr: str, default: float) -> None:
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
    if any(limits[name] is None and call.given(place) for place, name in ((1, "min"), (2, "max"))):
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
    """In training with its mask; an export for inference has none."""
    ratio = call.scalar(1) if call.given(1) else 0.5
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
    "Sum": partial(_several, kind="add"),
    "Max": partial(_several, kind="maximum"),
    "Min": partial(_several, kind="minimum"),
    "Pow": _power,
    "Reciprocal": _reciprocal,
    "LeakyRelu": partial(_shaped, kind="leaky_relu", attr="negative_slope", default=0.01),
    "Elu": partial(_shaped, kind="elu", attr="alpha", default=1.0),
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
