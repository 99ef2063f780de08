"""Converters of element-wise calls, with scalars in attrs."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from meshwright.capture.aten.call import AtenCall, Converter, plain_attr
from meshwright.capture.program import Value

_UNARY = (
    "neg", "abs", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "silu", "relu", "tanh",
    "sigmoid", "cos", "sin", "tan", "erf", "sign", "floor", "ceil", "round", "isnan", "isinf",
    "hardswish", "hardsigmoid", "mish", "logical_not", "bitwise_not",
)  # fmt: skip
_BINARY = (
    "mul", "eq", "ne", "lt", "gt", "le", "ge", "logical_and", "logical_or", "logical_xor",
    "bitwise_and", "bitwise_or", "bitwise_xor", "maximum", "minimum",
)  # fmt: skip
# by kind, the op with its operands exchanged, for a number on the left
_SWAPPED = {
    "lt": "gt", "gt": "lt", "le": "ge", "ge": "le",
    **{
        kind: kind
        for kind in (
            "mul", "eq", "ne", "logical_and", "logical_or", "logical_xor", "bitwise_and",
            "bitwise_or", "bitwise_xor", "maximum", "minimum",
        )
    },
}  # fmt: skip


def _unary(call: AtenCall, *, kind: str) -> None:
    call.op(kind, [call.args["self"]])


def _binary(call: AtenCall, *, kind: str) -> None:
    rounding = call.args.get("rounding_mode")
    if rounding is not None:
        kind = f"{rounding}_div"
    left, right = call.args["self"], call.args["other"]
    if isinstance(left, Value):
        return _binary_op(call, kind, left, right)
    if kind not in _SWAPPED:
        return call.unknown()
    return call.op(_SWAPPED[kind], [right], other=plain_attr(left))


def _quotient(call: AtenCall) -> None:
    left, right = call.args["self"], call.args["other"]
    if isinstance(left, Value) or call.args.get("rounding_mode") is not None:
        return _binary(call, kind="div")
    inverse = call.step("pow", [right], right.shape, exponent=-1)
    return call.op("mul", [inverse], other=plain_attr(left))


def _binary_op(call: AtenCall, kind: str, left: Value, right: Any) -> None:
    if isinstance(right, Value):
        call.op(kind, [left, right])
    else:
        call.op(kind, [left], other=plain_attr(right))


def _sum(call: AtenCall, *, kind: str) -> None:
    left, right, alpha = call.args["self"], call.args["other"], call.args.get("alpha", 1)
    if alpha != 1 and isinstance(right, Value):
        right = call.step("mul", [right], right.shape, other=plain_attr(alpha))
    elif alpha != 1:
        right = right * alpha
    if isinstance(left, Value):
        return _binary_op(call, kind, left, right)
    if kind == "sub":
        right = call.step("neg", [right], right.shape)
    return call.op("add", [right], other=plain_attr(left))


def _reversed_difference(call: AtenCall) -> None:
    left, right = call.args["self"], call.args["other"]
    negative = call.step("neg", [left], left.shape)
    _binary_op(call, "add", negative, right)


def _power(call: AtenCall) -> None:
    base, exponent = call.args["self"], call.args["exponent"]
    if not isinstance(base, Value):
        if base <= 0:
            return call.unknown()
        scaled = call.step("mul", [exponent], call.out.shape, other=math.log(base))
        return call.op("exp", [scaled])
    if isinstance(exponent, Value):
        return call.op("pow", [base, exponent])
    return call.op("pow", [base], exponent=plain_attr(exponent))


def _reciprocal(call: AtenCall) -> None:
    call.op("pow", [call.args["self"]], exponent=-1)


def _square(call: AtenCall) -> None:
    call.op("pow", [call.args["self"]], exponent=2)


def _log_sigmoid(call: AtenCall) -> None:
    """log sigmoid(x) = -log(1 + exp(-x))."""
    x = call.args["self"]
    negative = call.step("neg", [x], x.shape)
    softplus = call.step("softplus", [negative], x.shape, beta=1, threshold=20)
    call.op("neg", [softplus])


def _activation(call: AtenCall, *, kind: str, attrs: tuple[str, ...]) -> None:
    """An activation with scalar attrs."""
    call.op(kind, [call.args["self"]], **{name: plain_attr(call.args[name]) for name in attrs})


def _cast(call: AtenCall) -> None:
    source = call.args["self"]
    if source.dtype == call.out.dtype:
        return call.alias(source)
    call.out.cast_of_parameter = source.is_weight
    return call.op("cast", [source], dtype=call.out.dtype)


def _identity(call: AtenCall) -> None:
    call.alias(call.args["self"])


def _real_part(call: AtenCall) -> None:
    source: Value = call.args["self"]
    return call.unknown() if source.dtype.startswith("complex") else call.alias(source)


def _boolean(call: AtenCall, *, kind: str) -> None:
    prefix = "logical" if call.out.dtype == "bool" else "bitwise"
    _binary_op(call, f"{prefix}_{kind}", call.args["self"], call.args["other"])


def _detach(call: AtenCall) -> None:
    call.op("stop_gradient", [call.args["self"]])


def _clone(call: AtenCall) -> None:
    """A cast to the same dtype: writes into the copy leave the original as it is."""
    source: Value = call.args["self"]
    if source.dtype.startswith("complex"):
        return call.alias(source)
    return call.op("cast", [source], dtype=source.dtype)


def _gelu(call: AtenCall) -> None:
    call.op("gelu", [call.args["self"]], approximate=call.args.get("approximate", "none"))


def _clamp(call: AtenCall) -> None:
    low, high = call.args.get("min"), call.args.get("max")
    if isinstance(low, Value) or isinstance(high, Value):
        return call.unknown()
    limits = {"min": plain_attr(low), "max": plain_attr(high)}
    return call.op(
        "clamp", [call.args["self"]], **{k: v for k, v in limits.items() if v is not None}
    )


def _dropout(call: AtenCall) -> None:
    # dropout in place names its input self
    source = call.args["input"] if "input" in call.args else call.args["self"]
    if not call.args["train"] or call.args["p"] == 0:
        return call.alias(source)
    mask = Value("", call.out.shape, "bool")
    return call.op_with_saved("dropout", [source], mask, p=call.args["p"])


def _where(call: AtenCall) -> None:
    if "self" not in call.args:
        return call.unknown()
    condition, selected, other = (call.args[name] for name in ("condition", "self", "other"))
    inputs = [condition, *(v for v in (selected, other) if isinstance(v, Value))]
    scalars = {
        name: plain_attr(value)
        for name, value in (("self", selected), ("other", other))
        if not isinstance(value, Value)
    }
    return call.op("where", inputs, **scalars)


def _masked_fill(call: AtenCall) -> None:
    value = call.args["value"]
    inputs = [call.args["self"], call.args["mask"]]
    if isinstance(value, Value):
        return call.op("masked_fill", [*inputs, value])
    return call.op("masked_fill", inputs, value=plain_attr(value))


CONVERTERS: dict[str, Converter] = {
    **{name: partial(_unary, kind=name) for name in _UNARY},
    **{name: partial(_binary, kind=name) for name in _BINARY},
    "add": partial(_sum, kind="add"),
    "sub": partial(_sum, kind="sub"),
    "rsub": _reversed_difference,
    "div": _quotient,
    "floor_divide": partial(_binary, kind="floor_div"),
    "pow": _power,
    "square": _square,
    "reciprocal": _reciprocal,
    "log_sigmoid": _log_sigmoid,
    "leaky_relu": partial(_activation, kind="leaky_relu", attrs=("negative_slope",)),
    "elu": partial(_activation, kind="elu", attrs=("alpha",)),
    "softplus": partial(_activation, kind="softplus", attrs=("beta", "threshold")),
    "to": _cast,
    "_to_copy": _cast,
    "type_as": _cast,
    "real": _real_part,
    "clone": _clone,
    "detach": _detach,
    "__and__": partial(_boolean, kind="and"),
    "__or__": partial(_boolean, kind="or"),
    "gelu": _gelu,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp,
    "dropout": _dropout,
    "where": _where,
    "masked_fill": _masked_fill,
    **dict.fromkeys(("alias", "contiguous", "lift_fresh", "lift_fresh_copy"), _identity),
}
