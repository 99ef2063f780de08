"""Element-wise kinds of several inputs, broadcast from the right; a scalar is in attrs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

import numpy as np

from meshwright_solver.verification.execution.kernels.call import (
    Array,
    KernelCall,
    read_number,
    reduced_to,
    scaled,
)
from meshwright_solver.verification.execution.kernels.kernel import OpKernel, no_gradient

Gradients = tuple[Array | None, ...]


def _other(call: KernelCall) -> Array:
    other = call.optional(1)
    return np.asarray(call.number("other", 1.0)) if other is None else other


def _reduce_to_inputs(call: KernelCall, gradients: Sequence[Array]) -> Gradients:
    pairs = zip(call.inputs, gradients, strict=False)
    return tuple(reduced_to(array.shape, gradient) for array, gradient in pairs)


def _add(call: KernelCall) -> Array:
    return reduce(np.add, [*call.inputs[:1], _other(call), *call.inputs[2:]])


def _add_gradients(call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]) -> Gradients:
    return _reduce_to_inputs(call, [sent[0]] * len(call.inputs))


def _sub(call: KernelCall) -> Array:
    x, y = call.x, _other(call)
    return np.logical_xor(x, y) if x.dtype == y.dtype == np.bool_ else np.subtract(x, y)


def _sub_gradients(call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]) -> Gradients:
    return _reduce_to_inputs(call, [sent[0], -sent[0]])


def _mul(call: KernelCall) -> Array:
    return reduce(np.multiply, [*call.inputs[:1], _other(call), *call.inputs[2:]])


def _mul_gradients(call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]) -> Gradients:
    factors = [*call.inputs[:1], _other(call), *call.inputs[2:]]
    gradients = []
    for position in range(len(call.inputs)):
        rest = factors[:position] + factors[position + 1 :]
        gradients.append(reduce(np.multiply, rest, sent[0]))
    return _reduce_to_inputs(call, gradients)


def _div(call: KernelCall) -> Array:
    return np.divide(call.x, _other(call))


def _div_gradients(call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]) -> Gradients:
    y = _other(call).astype(np.float64)
    return _reduce_to_inputs(call, [scaled(sent[0], 1 / y), scaled(sent[0], -call.x / y**2)])


def _exponent(call: KernelCall) -> Array:
    exponent = call.optional(1)
    return np.asarray(call.number("exponent", 2.0)) if exponent is None else exponent


def _base(x: Array, exponent: Array) -> Array:
    """The base of a power: |x| where a power of a negative x is not a real number."""
    return np.where(exponent == np.round(exponent), x, np.abs(x))


def _pow(call: KernelCall) -> Array:
    exponent = _exponent(call)
    if call.x.dtype != np.float64 and exponent.dtype != np.float64 and (exponent >= 0).all():
        return np.asarray(call.x**exponent)
    return np.asarray(np.power(_base(call.x, exponent).astype(np.float64), exponent))


def _pow_gradients(call: KernelCall, outputs: Sequence[Array], sent: Sequence[Array]) -> Gradients:
    exponent = _exponent(call)
    base = _base(call.x, exponent).astype(np.float64)
    sign = np.where(base == call.x, 1.0, -1.0)
    power = np.where(exponent == 0, 0.0, exponent * np.power(base, exponent - 1.0))
    logarithm = np.where(base == 0, 0.0, np.log(np.abs(base)))
    return _reduce_to_inputs(
        call, [scaled(sent[0], sign * power), scaled(sent[0], outputs[0] * logarithm)]
    )


def _extreme(call: KernelCall, *, function: Callable[[Array, Array], Array]) -> Array:
    return function(call.x, _other(call))


def _extreme_gradients(
    call: KernelCall, outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    """Half of the gradient to each input where both are the extreme."""
    x, y = call.x, _other(call)
    first = np.where(x == y, 0.5, (x == outputs[0]).astype(np.float64))
    return _reduce_to_inputs(call, [sent[0] * first, sent[0] * (1 - first)])


def _compare(call: KernelCall, *, function: Callable[[Array, Array], Array]) -> Array:
    return function(call.x, _other(call))


def _where_parts(call: KernelCall) -> tuple[Array, Array, list[int | None]]:
    """Both choices, and the input position of each; None for a scalar."""
    position = 1
    parts: list[Array] = []
    places: list[int | None] = []
    for name in ("self", "other"):
        if name in call.attrs:
            parts.append(np.asarray(read_number(call.attrs[name], 0.0)))
            places.append(None)
        else:
            parts.append(call.inputs[position])
            places.append(position)
            position += 1
    return parts[0], parts[1], places


def _where(call: KernelCall) -> Array:
    chosen, other, _ = _where_parts(call)
    return np.where(call.x.astype(np.bool_), chosen, other)


def _where_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    _, _, places = _where_parts(call)
    condition = call.x.astype(np.bool_)
    gradients: list[Array | None] = [None] * len(call.inputs)
    for place, chosen in zip(places, (condition, ~condition), strict=True):
        if place is not None:
            gradients[place] = reduced_to(call.inputs[place].shape, np.where(chosen, sent[0], 0.0))
    return tuple(gradients)


def _masked_fill(call: KernelCall) -> Array:
    value = call.optional(2)
    fill = np.asarray(call.number("value", 0.0)) if value is None else value
    return np.where(call.inputs[1].astype(np.bool_), fill.astype(call.x.dtype), call.x)


def _masked_fill_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    mask = call.inputs[1].astype(np.bool_)
    gradients: list[Array | None] = [reduced_to(call.x.shape, np.where(mask, 0.0, sent[0])), None]
    if len(call.inputs) > 2:
        gradients.append(reduced_to(call.inputs[2].shape, np.where(mask, sent[0], 0.0)))
    return tuple(gradients)


_COMPARED: Mapping[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "gt": np.greater,
    "le": np.less_equal,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}

BINARY: Mapping[str, OpKernel] = {
    "add": OpKernel(_add, _add_gradients),
    "sub": OpKernel(_sub, _sub_gradients),
    "mul": OpKernel(_mul, _mul_gradients),
    "div": OpKernel(_div, _div_gradients),
    "pow": OpKernel(_pow, _pow_gradients),
    "maximum": OpKernel(partial(_extreme, function=np.maximum), _extreme_gradients),
    "minimum": OpKernel(partial(_extreme, function=np.minimum), _extreme_gradients),
    "where": OpKernel(_where, _where_gradients),
    "masked_fill": OpKernel(_masked_fill, _masked_fill_gradients),
    **{
        kind: OpKernel(partial(_compare, function=function), no_gradient)
        for kind, function in _COMPARED.items()
    },
}
