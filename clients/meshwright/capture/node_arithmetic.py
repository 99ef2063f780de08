"""Converters of element-wise nodes that ONNX and jaxprs share."""

from __future__ import annotations

import math

from meshwright.capture.node_call import NodeCall

_SWAPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum", "logical_and"})
# numbers that may be sizes are integers: from the smallest witness to the float precision limit
_LEAST_SIZE, _LARGEST_SIZE = 11, 2**53


def plain(number: float) -> float | int | str:
    """A number as JSON; a possible size becomes an integer, and an infinity becomes text."""
    if isinstance(number, (bool, int)):
        return number
    if not math.isfinite(number):
        return str(number)
    is_size = number.is_integer() and _LEAST_SIZE <= abs(number) <= _LARGEST_SIZE
    return int(number) if is_size else number


def unary(call: NodeCall, *, kind: str) -> None:
    call.op(kind, [call.x])


def binary(call: NodeCall, *, kind: str) -> None:
    """A binary node; a constant operand becomes an attribute."""
    left, right = call.scalar(0), call.scalar(1)
    if right is not None and call.x.shape == call.out.shape:
        return call.op(kind, [call.x], other=plain(right))
    if left is None or call.value(1).shape != call.out.shape:
        return call.op(kind, [call.value(0), call.value(1)])
    y = call.value(1)
    if kind in _COMMUTATIVE or kind in _SWAPPED:
        return call.op(_SWAPPED.get(kind, kind), [y], other=plain(left))
    if kind == "sub":
        return call.op("add", [call.step("neg", [y], y.shape)], other=plain(left))
    if kind == "div":
        reciprocal = call.step("pow", [y], y.shape, exponent=-1)
        return call.op("mul", [reciprocal], other=plain(left))
    return call.op(kind, [call.value(0), y])


def cast(call: NodeCall) -> None:
    if call.x.dtype == call.out.dtype:
        return call.alias(call.x)
    return call.op("cast", [call.x], dtype=call.out.dtype)


def same(call: NodeCall) -> None:
    call.alias(call.x)
