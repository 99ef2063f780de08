"""Conversion of einsum to products, sums and views.

Operands are contracted in pairs, from the left or along the path that torch chose. The labels of a
pair are

    batch     in both operands, and needed later
    depth     in both operands, and summed here
    rows      in the left operand alone
    columns   in the right operand alone

A pair with depth is one matmul [batch, rows, depth] @ [batch, depth, columns]; a pair without is an
element-wise product. A label that one operand alone has and nothing needs is summed before. Dims
stay separate where matmul lets them, so that each can be sharded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from meshwright.capture.aten.call import AtenCall, Converter
from meshwright.capture.program import Node, Value
from meshwright.schema.errors import GraphError

Labels = tuple[str, ...]


class _Operand(NamedTuple):
    """A tensor with the label of each dim. Dims of an ellipsis are ".0", ".1" from the right."""

    value: Value
    labels: Labels


class _Equation(NamedTuple):
    operands: list[Labels]
    output: Labels


def _einsum(call: AtenCall) -> None:
    values: list[Value] = call.args["tensors"]
    equation = _parsed(call.args["equation"], values)
    operands = [
        _with_distinct_labels(call, _Operand(value, labels))
        for value, labels in zip(values, equation.operands, strict=True)
    ]
    sizes = _sizes(operands)
    operands = [_without_broadcast(call, operand, sizes) for operand in operands]
    for first, second in _pairs(call.args.get("path"), len(operands)):
        right, left = operands.pop(max(first, second)), operands.pop(min(first, second))
        needed = {*equation.output, *(label for one in operands for label in one.labels)}
        order = [*equation.output, *left.labels, *right.labels]
        operands.append(_product(call, left, right, tuple(dict.fromkeys(order)), needed))
    result = _arranged(call, _summed(call, operands[0], set(equation.output)), equation.output)
    if result.shape != call.out.shape:
        result = call.step("expand", [result], call.out.shape)
    call.alias(result)


def _parsed(text: str, values: Sequence[Value]) -> _Equation:
    """The labels of each operand and of the output, which alphabetical order gives if none is."""
    left, arrow, right = text.replace(" ", "").partition("->")
    terms = left.split(",")
    operands = [_labels(term, value.rank) for term, value in zip(terms, values, strict=True)]
    wide = max((sum(label[0] == "." for label in labels) for labels in operands), default=0)
    ellipsis = tuple(f".{place}" for place in reversed(range(wide)))
    if arrow:
        before, dots, after = right.partition("...")
        return _Equation(operands, (*before, *(ellipsis if dots else ()), *after))
    letters = left.replace(",", "").replace(".", "")
    return _Equation(operands, (*ellipsis, *sorted(x for x in letters if letters.count(x) == 1)))


def _labels(term: str, rank: int) -> Labels:
    before, dots, after = term.partition("...")
    count = rank - len(before) - len(after)
    return (*before, *(f".{place}" for place in reversed(range(count if dots else 0))), *after)


def _pairs(path: Sequence[int] | None, count: int) -> Iterable[tuple[int, int]]:
    """The operands to contract, in a list that loses both and ends with their product."""
    if path:
        return zip(path[::2], path[1::2], strict=True)
    return [(0, 1), *((0, count - 1 - done) for done in range(1, count - 1))][: count - 1]


def _sizes(operands: Iterable[_Operand]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for value, labels in operands:
        for label, size in zip(labels, value.shape, strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
    return sizes


def _with_distinct_labels(call: AtenCall, operand: _Operand) -> _Operand:
    """The diagonal of each label that an operand has twice, as a sum over one of both dims."""
    value, labels = operand
    while twice := next((label for label in labels if labels.count(label) > 1), None):
        first = labels.index(twice)
        second = labels.index(twice, first + 1)
        size = value.shape[first]
        if value.shape[second] != size:
            raise GraphError(
                f"einsum {call.args['equation']!r} takes a diagonal of {size} by "
                f"{value.shape[second]}. Use dims of the same length"
            )
        is_equal = _is_diagonal(call, value.rank, (first, second), size)
        diagonal = Value("", value.shape, value.dtype)
        node = Node("where", [is_equal, value], [diagonal], {"other": 0.0}, call.module)
        call.nodes.append(node)
        shape = (*value.shape[:second], *value.shape[second + 1 :])
        value = call.step("sum", [diagonal], shape, dims=[second], keepdim=False)
        labels = (*labels[:second], *labels[second + 1 :])
    return _Operand(value, labels)


def _is_diagonal(call: AtenCall, rank: int, dims: tuple[int, int], size: int) -> Value:
    """Whether the indices of two dims are equal, with dims of one element elsewhere."""
    shapes = [tuple(size if d == dim else 1 for d in range(rank)) for dim in dims]
    places = []
    for shape in shapes:
        count = Value("", (size,), "int64")
        attrs = {"start": 0, "end": size, "step": 1}
        call.nodes.append(Node("arange", [], [count], attrs, call.module))
        places.append(call.step("reshape", [count], shape))
    result = Value("", tuple(max(pair) for pair in zip(*shapes, strict=True)), "bool")
    call.nodes.append(Node("eq", places, [result], module=call.module))
    return result


def _without_broadcast(call: AtenCall, operand: _Operand, sizes: dict[str, int]) -> _Operand:
    """The operand without the dims of one element that another operand has longer."""
    value, labels = operand
    kept = [d for d, label in enumerate(labels) if value.shape[d] == sizes[label]]
    shape = tuple(value.shape[d] for d in kept)
    return _Operand(_reshaped(call, value, shape), tuple(labels[d] for d in kept))


def _summed(call: AtenCall, operand: _Operand, needed: set[str]) -> _Operand:
    value, labels = operand
    dims = [d for d, label in enumerate(labels) if label not in needed]
    if not dims:
        return operand
    kept = [d for d in range(value.rank) if d not in dims]
    shape = tuple(value.shape[d] for d in kept)
    result = call.step("sum", [value], shape, dims=dims, keepdim=False)
    return _Operand(result, tuple(labels[d] for d in kept))


def _product(
    call: AtenCall, left: _Operand, right: _Operand, order: Labels, needed: set[str]
) -> _Operand:
    """The product of two operands, with the labels of the result in the given order if it can."""
    both = set(left.labels) & set(right.labels)
    left, right = (_summed(call, operand, needed | both) for operand in (left, right))
    batch = tuple(label for label in order if label in both & needed)
    depth = tuple(label for label in left.labels if label in both - needed)
    rows, columns = (
        tuple(label for label in order if label in set(operand.labels) - both)
        for operand in (left, right)
    )
    if not depth or not (rows or columns):
        labels = tuple(label for label in order if label in {*left.labels, *right.labels})
        operands = [_broadcast(call, operand, labels) for operand in (left, right)]
        shape = tuple(max(a, b) for a, b in zip(*(v.shape for v in operands), strict=True))
        return _summed(call, _Operand(call.step("mul", operands, shape), labels), needed)
    if columns and (not rows or order.index(columns[0]) < order.index(rows[0])):
        return _matrix_product(call, right, left, batch, columns, depth, rows)
    return _matrix_product(call, left, right, batch, rows, depth, columns)


def _matrix_product(
    call: AtenCall,
    left: _Operand,
    right: _Operand,
    batch: Labels,
    rows: Labels,
    depth: Labels,
    columns: Labels,
) -> _Operand:
    """[batch, rows, depth] @ [batch, depth, columns]."""
    sizes = _sizes((left, right))

    def shape(*groups: Labels) -> tuple[int, ...]:
        return tuple(math.prod(sizes[label] for label in group) for group in groups)

    lead = tuple((label,) for label in batch)
    # a matrix on the right leaves the rows of the left separate
    of_rows = (rows,) if batch else tuple((label,) for label in rows)
    of_columns = (columns,) if columns or batch else ()
    a = _arranged(call, left, (*batch, *rows, *depth))
    b = _arranged(call, right, (*batch, *depth, *columns))
    a = _reshaped(call, a, shape(*lead, *of_rows, depth))
    b = _reshaped(call, b, shape(*lead, depth, *of_columns))
    result = call.step("matmul", [a, b], shape(*lead, *of_rows, *of_columns))
    labels = (*batch, *rows, *columns)
    return _Operand(_reshaped(call, result, tuple(sizes[label] for label in labels)), labels)


def _broadcast(call: AtenCall, operand: _Operand, labels: Labels) -> Value:
    """The operand with these labels, and dims of one element where it lacks them."""
    present = tuple(label for label in labels if label in operand.labels)
    value = _arranged(call, operand, present)
    sizes = dict(zip(present, value.shape, strict=True))
    return _reshaped(call, value, tuple(sizes.get(label, 1) for label in labels))


def _arranged(call: AtenCall, operand: _Operand, labels: Labels) -> Value:
    """The operand with its dims in the order of these labels, without those that it lacks."""
    present = [label for label in labels if label in operand.labels]
    dims = [operand.labels.index(label) for label in present]
    value = _transposed(call, operand.value, dims)
    sizes = dict(zip(present, value.shape, strict=True))
    return _reshaped(call, value, tuple(sizes.get(label, 1) for label in labels))


def _transposed(call: AtenCall, value: Value, dims: Sequence[int]) -> Value:
    if list(dims) == list(range(value.rank)):
        return value
    return call.step("transpose", [value], [value.shape[d] for d in dims], dims=list(dims))


def _reshaped(call: AtenCall, value: Value, shape: tuple[int, ...]) -> Value:
    return value if value.shape == shape else call.step("reshape", [value], shape)


CONVERTERS: dict[str, Converter] = {"einsum": _einsum}
