"""Converters of element-wise primitives."""

from __future__ import annotations

from functools import partial

from meshwright.capture.node_arithmetic import binary, cast, plain, same, unary
from meshwright.capture.node_call import Converter, NodeCall

_UNARY = {
    **{n: n for n in ("neg", "exp", "log", "tanh", "sin", "cos", "tan", "sqrt", "rsqrt", "abs")},
    **{n: n for n in ("sign", "floor", "ceil", "erf", "log1p", "expm1")},
    "logistic": "sigmoid",
    "round": "round",
    "is_finite": "isfinite",
}
_BINARY = {
    **{n: n for n in ("add", "sub", "mul", "div", "eq", "ne", "lt", "gt", "le", "ge")},
    "add_any": "add",
    "max": "maximum",
    "min": "minimum",
}


def _boolean(call: NodeCall, *, kind: str) -> None:
    prefix = "logical" if call.out.dtype == "bool" else "bitwise"
    call.op(f"{prefix}_{kind}", call.present(*range(len(call.inputs))))


def _power(call: NodeCall) -> None:
    exponent = call.attrs.get("y", call.scalar(1) if len(call.inputs) > 1 else None)
    if exponent is None:
        return call.op("pow", [call.value(0), call.value(1)])
    return call.op("pow", [call.x], exponent=exponent)


def _square(call: NodeCall) -> None:
    call.op("pow", [call.x], exponent=2)


def _select(call: NodeCall) -> None:
    """select_n: the second input where the first is false, the third where it is true."""
    if len(call.inputs) != 3 or call.x.dtype != "bool":
        return call.unknown()
    inputs = [call.x]
    scalars: dict[str, float | int | str] = {}
    for place, name in ((2, "self"), (1, "other")):
        number = call.scalar(place)
        if number is None or scalars or call.x.shape != call.out.shape:
            inputs.append(call.value(place))
        else:
            scalars[name] = plain(number)
    return call.op("where", inputs, **scalars)


def _clamp(call: NodeCall) -> None:
    low, high = call.scalar(0), call.scalar(2)
    if low is None or high is None:
        return call.unknown()
    return call.op("clamp", [call.value(1)], min=plain(low), max=plain(high))


CONVERTERS: dict[str, Converter] = {
    **{name: partial(unary, kind=kind) for name, kind in _UNARY.items()},
    **{name: partial(binary, kind=kind) for name, kind in _BINARY.items()},
    **{name: partial(_boolean, kind=name) for name in ("and", "or", "xor", "not")},
    "integer_pow": _power,
    "pow": _power,
    "square": _square,
    "convert_element_type": cast,
    "select_n": _select,
    "clamp": _clamp,
    **dict.fromkeys(
        ("copy", "copy_p", "stop_gradient", "reduce_precision", "optimization_barrier", "name"),
        same,
    ),
}
