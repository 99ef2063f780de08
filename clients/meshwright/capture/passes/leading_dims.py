"""Removal of flattened leading dims around row-wise ops.

Many programs flatten [b, s, h] to [b*s, h] around ops that work on rows. With the original dims,
batch and sequence stay separate, and the views around the op become redundant.
"""

from __future__ import annotations

import math
from typing import Any

from meshwright.capture.program import Node, Program, Value

_ELEMENTWISE = frozenset({
    "add", "sub", "mul", "div", "neg", "exp", "log", "sqrt", "rsqrt", "pow", "silu", "gelu",
    "relu", "tanh", "sigmoid", "cos", "sin", "cast", "dropout", "where", "masked_fill", "eq",
    "ne", "lt", "gt", "le", "ge", "logical_and", "logical_or", "logical_not", "bitwise_not",
    "clamp", "erf", "maximum", "minimum",
})  # fmt: skip
_ALONG_DIM = frozenset(
    {
        *("softmax", "log_softmax", "topk", "cumsum", "sort", "argmax", "split", "concat"),
        *("gather", "scatter"),
    }
)
_REDUCTIONS = frozenset({"sum", "mean", "amax", "amin", "prod", "any", "all"})
_ROWS_OF_FIRST = frozenset({"linear", "layer_norm", "rms_norm"})


def keep_leading_dims(program: Program) -> None:
    """Move each flattening of leading dims behind the row-wise ops that follow it."""
    unflattened: dict[Value, Value] = {}
    nodes: list[Node] = []
    makers = program.producers()
    for node in program.nodes:
        if node.kind == "reshape" and not _keeps_rows(node, unflattened):
            nodes += _split_reshape(node)
            if _merges_leading(node):
                unflattened[node.output] = node.inputs[0]
            continue
        nodes += _unflattened_fills(node, unflattened, makers)
        nodes.append(node)
        replacement = _unflattened_inputs(node, unflattened)
        if replacement is None:
            continue
        inputs, extra = replacement
        leading = next(v for v, old in zip(inputs, node.inputs, strict=True) if v is not old)
        outputs = node.outputs
        node.inputs = inputs
        node.attrs = _shift_dims(node, extra)
        lead = leading.shape[: extra + 1]
        if node.kind == "cross_entropy" and node.attrs["reduction"] != "none":
            continue
        node.outputs = [Value("", (*lead, *value.shape[1:]), value.dtype) for value in outputs]
        for old, new in zip(outputs, node.outputs, strict=True):
            nodes.append(Node("reshape", [new], [old], module=node.module))
            unflattened[old] = new
    program.nodes = nodes


def _keeps_rows(node: Node, unflattened: dict[Value, Value]) -> bool:
    """Whether a reshape keeps flattened rows and changes only the dims inside a row."""
    source, shape = node.inputs[0], node.output.shape
    return source in unflattened and bool(shape) and shape[0] == source.shape[0]


def _unflattened_fills(
    node: Node, unflattened: dict[Value, Value], makers: dict[Value, Node]
) -> list[Node]:
    """Unflattened versions of the `full` inputs of this node."""
    leads = [
        (unflattened[v].shape[: unflattened[v].rank - v.rank + 1], v.shape[0])
        for v in node.inputs
        if v in unflattened
    ]
    if not leads or node.kind not in _ALONG_DIM:
        return []
    lead, rows = leads[0]
    added = []
    for value in node.inputs:
        maker = makers.get(value)
        if (
            maker is None
            or maker.kind != "full"
            or value in unflattened
            or value.shape[:1] != (rows,)
        ):
            continue
        unflattened[value] = Value("", (*lead, *value.shape[1:]), value.dtype)
        added.append(Node("full", [], [unflattened[value]], maker.attrs, maker.module))
    return added


def _split_reshape(node: Node) -> list[Node]:
    """A reshape [b,s,h,d] to [b*s,h*d] split at [b,s,h*d]; other reshapes are unchanged."""
    source, after = node.inputs[0], node.output.shape
    for count in range(2, source.rank):
        lead, tail = source.shape[:count], source.shape[count:]
        if after and math.prod(lead) == after[0] and tail != after[1:]:
            middle = Value("", (*lead, *after[1:]), source.dtype)
            node.inputs = [middle]
            return [Node("reshape", [source], [middle], module=node.module), node]
    return [node]


def _merges_leading(node: Node) -> bool:
    before, after = node.inputs[0].shape, node.output.shape
    extra = len(before) - len(after)
    if extra < 1 or not after or sum(size != 1 for size in before[: extra + 1]) < 2:
        return False
    return before[extra + 1 :] == after[1:] and math.prod(before[: extra + 1]) == after[0]


def _unflattened_inputs(
    node: Node, unflattened: dict[Value, Value]
) -> tuple[list[Value], int] | None:
    """The unflattened inputs and the number of added dims; None where impossible."""
    if not any(value in unflattened for value in node.inputs):
        return None
    rows = _row_inputs(node)
    if rows is None or any(value not in unflattened for value in rows):
        return None
    shapes = {unflattened[v].shape[: unflattened[v].rank - v.rank + 1] for v in rows}
    if len(shapes) != 1:
        return None
    inputs = [unflattened[value] if value in rows else value for value in node.inputs]
    return inputs, len(next(iter(shapes))) - 1


def _row_inputs(node: Node) -> list[Value] | None:
    """The inputs whose first dim is rows; None for an op that mixes rows."""
    if node.kind in _ROWS_OF_FIRST:
        x = node.inputs[0]
        return [x] if x.rank > int(node.attrs.get("dims", 1)) else None
    if node.kind == "cross_entropy":
        return node.inputs
    if node.kind == "embedding":
        return [node.inputs[1]] if node.inputs[1].rank else None
    if node.kind in ("reshape", "expand"):
        return list(node.inputs) if node.inputs[0].shape[:1] == node.output.shape[:1] else None
    if node.kind in _ALONG_DIM:
        return None if node.attrs["dim"] == 0 else list(node.inputs)
    if node.kind in _REDUCTIONS:
        return None if 0 in node.attrs["dims"] else list(node.inputs)
    if node.kind in _ELEMENTWISE:
        rank = node.output.rank
        rows = [v for v in node.inputs if v.rank == rank and v.shape[0] != 1]
        others = [v for v in node.inputs if v.rank == rank and v.shape[0] == 1]
        return rows if rank and not others else None
    return None


def _shift_dims(node: Node, extra: int) -> dict[str, Any]:
    attrs = dict(node.attrs)
    if node.kind in _ALONG_DIM:
        attrs["dim"] += extra
    elif node.kind in _REDUCTIONS:
        attrs["dims"] = [dim + extra for dim in attrs["dims"]]
    return attrs
