"""Converters of element-wise nodes that ONNX and jaxprs have alike."""

from __future__ import annotations

import math

from meshwright.capture.node_call import NodeCall

_TURNED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum", "logical_and"})
# what may be a size stands as a whole number: from the smallest witness on, as far as floats tell
_LEAST_SIZE, _LARGEST_SIZE = 11, 2**53


def plain(number: float) -> float | int | str:
    """A number that JSON can hold; one that may come from sizes as a whole one.

    The interpreter reads infinities from text.
    """
    if isinstance(number, (bool, int)):
        return number
    if not math.isfinite(number):
        return str(number)
    is_size = number.is_integer() and _LEAST_SIZE <= abs(number) <= _LARGEST_SIZE
    return int(number) if is_size else number


def unary(call: NodeCall, *, kind: str) -> None:
    call.op(kind, [call.x])


def binary(call: NodeCall, *, kind: str) -> None:
    """Of two; a known number becomes an attribute."""
    left, right = call.scalar(0), call.scalar(1)
    if right is not None and call.x.shape == call.out.shape:
        return call.op(kind, [call.x], other=plain(right))
    if left is None or call.value(1).shape != call.out.shape:
        return call.op(kind, [call.value(0), call.value(1)])
    y = call.value(1)
    if kind in _COMMUTATIVE or kind in _TURNED:
        return call.op(_TURNED.get(kind, kind), [y], other=plain(left))
    if kind == "sub":
        return call.op("add", [call.step("neg", [y], y.shape)], other=plain(left))
    if kind == "div":
        turned = call.step("pow", [y], y.shape, exponent=-1)
        return call.op("mul", [turned], other=plain(left))
    return call.op(kind, [call.value(0), y])


def cast(call: NodeCall) -> None:
    if call.x.dtype == call.out.dtype:
        return call.alias(call.x)
    return call.op("cast", [call.x], dtype=call.out.dtype)


def same(call: NodeCall) -> None:
    call.alias(call.x)
