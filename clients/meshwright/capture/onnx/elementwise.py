"""Operators that work element by element."""

from __future__ import annotations

import math
from functools import partial

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
_TURNED = {"eq": "eq", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum", *(_TURNED), "logical_and"})


def _unary(call: NodeCall, *, kind: str) -> None:
    call.op(kind, [call.x])


def _binary(call: NodeCall, *, kind: str) -> None:
    """Of two; a known number becomes an attribute."""
    left, right = call.scalar(0), call.scalar(1)
    if right is not None and call.x.shape == call.out.shape:
        return call.op(kind, [call.x], other=_plain(right))
    if left is None or call.value(1).shape != call.out.shape:
        return call.op(kind, [call.value(0), call.value(1)])
    y = call.value(1)
    if kind in _COMMUTATIVE:
        return call.op(_TURNED.get(kind, kind), [y], other=_plain(left))
    if kind == "sub":
        return call.op("add", [call.step("neg", [y], y.shape)], other=_plain(left))
    if kind == "div":
        turned = call.step("pow", [y], y.shape, exponent=-1)
        return call.op("mul", [turned], other=_plain(left))
    return call.op(kind, [call.value(0), y])


def _several(call: NodeCall, *, kind: str) -> None:
    """Of any number, two by two."""
    values = call.given(*range(len(call.inputs)))
    if len(values) == 1:
        return call.alias(values[0])
    if len(values) == 2:
        return _binary(call, kind=kind)
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
    return call.op("pow", [call.x], exponent=_plain(exponent))


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


def _cast(call: NodeCall) -> None:
    if call.x.dtype == call.out.dtype:
        return call.alias(call.x)
    return call.op("cast", [call.x], dtype=call.out.dtype)


def _clip(call: NodeCall) -> None:
    limits = {
        name: call.attrs.get(name, call.scalar(place)) for place, name in ((1, "min"), (2, "max"))
    }
    if any(limits[name] is None and call.given(place) for place, name in ((1, "min"), (2, "max"))):
        return call.unknown()
    return call.op("clamp", [call.x], **{k: _plain(v) for k, v in limits.items() if v is not None})


def _where(call: NodeCall) -> None:
    inputs = [call.value(0)]
    scalars: dict[str, float | bool | str] = {}
    for place, name in ((1, "self"), (2, "other")):
        number = call.scalar(place)
        if number is None or len(scalars) == 1:
            inputs.append(call.value(place))
        else:
            scalars[name] = _plain(number)
    call.op("where", inputs, **scalars)


def _dropout(call: NodeCall) -> None:
    """In training with its mask; an export for inference has none."""
    ratio = call.scalar(1) if call.given(1) else 0.5
    if not call.scalar(2) or not ratio:
        return call.alias(call.x)
    mask = call.results[1] if len(call.results) > 1 else Value("", call.x.shape, "bool")
    call.results = [call.out, mask]
    return call.op("dropout", [call.x], p=ratio)


def _same(call: NodeCall) -> None:
    call.alias(call.x)


def _plain(number: float | bool) -> float | bool | str:
    """A number that JSON can hold; the interpreter reads infinities from text."""
    return number if math.isfinite(number) else str(number)


CONVERTERS: dict[str, Converter] = {
    **{name: partial(_unary, kind=name.lower()) for name in _UNARY},
    "Not": partial(_unary, kind="logical_not"),
    "IsNaN": partial(_unary, kind="isnan"),
    **{name: partial(_binary, kind=kind) for name, kind in _BINARY.items()},
    "Sub": partial(_binary, kind="sub"),
    "Div": partial(_binary, kind="div"),
    "Add": partial(_binary, kind="add"),
    "Mul": partial(_binary, kind="mul"),
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
    "Cast": _cast,
    "CastLike": _cast,
    "Clip": _clip,
    "Where": _where,
    "Dropout": _dropout,
    "Identity": _same,
}
