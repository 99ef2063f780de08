"""Leading dims merged for ops that do not need it.

Many programs flatten [b, s, h] to [b*s, h] around ops that work on rows. On the dims as they were,
batch and sequence stay apart, and the views around the op fall away.
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
    """Move each merge of leading dims behind the row-wise ops that follow it."""
    apart: dict[Value, Value] = {}
    nodes: list[Node] = []
    makers = program.producers()
    for node in program.nodes:
        if node.kind == "reshape" and not _keeps_rows(node, apart):
            nodes += _in_two_steps(node)
            if _merges_leading(node):
                apart[node.output] = node.inputs[0]
            continue
        nodes += _fills_apart(node, apart, makers)
        nodes.append(node)
        plan = _apart_inputs(node, apart)
        if plan is None:
            continue
        inputs, extra = plan
        leading = next(v for v, old in zip(inputs, node.inputs, strict=True) if v is not old)
        merged = node.outputs
        node.inputs = inputs
        node.attrs = _shifted(node, extra)
        lead = leading.shape[: extra + 1]
        if node.kind == "cross_entropy" and node.attrs["reduction"] != "none":
            continue
        node.outputs = [Value("", (*lead, *value.shape[1:]), value.dtype) for value in merged]
        for old, new in zip(merged, node.outputs, strict=True):
            nodes.append(Node("reshape", [new], [old], module=node.module))
            apart[old] = new
    program.nodes = nodes


def _keeps_rows(node: Node, apart: dict[Value, Value]) -> bool:
    """A reshape of what stands in each row of merged ones."""
    source, shape = node.inputs[0], node.output.shape
    return source in apart and bool(shape) and shape[0] == source.shape[0]


def _fills_apart(node: Node, apart: dict[Value, Value], makers: dict[Value, Node]) -> list[Node]:
    """Rows that a `full` makes for this node, with the leading dims of the rows beside them."""
    leads = [
        (apart[v].shape[: apart[v].rank - v.rank + 1], v.shape[0])
        for v in node.inputs
        if v in apart
    ]
    if not leads or node.kind not in _ALONG_DIM:
        return []
    lead, rows = leads[0]
    added = []
    for value in node.inputs:
        maker = makers.get(value)
        if maker is None or maker.kind != "full" or value in apart or value.shape[:1] != (rows,):
            continue
        apart[value] = Value("", (*lead, *value.shape[1:]), value.dtype)
        added.append(Node("full", [], [apart[value]], maker.attrs, maker.module))
    return added


def _in_two_steps(node: Node) -> list[Node]:
    """[b,s,h,d] to [b*s,h*d] by way of [b,s,h*d]; any other reshape as it is."""
    source, after = node.inputs[0], node.output.shape
    for count in range(2, source.rank):
        lead, tail = source.shape[:count], source.shape[count:]
        if after and math.prod(lead) == after[0] and tail != after[1:]:
            made = Value("", (*lead, *after[1:]), source.dtype)
            node.inputs = [made]
            return [Node("reshape", [source], [made], module=node.module), node]
    return [node]


def _merges_leading(node: Node) -> bool:
    before, after = node.inputs[0].shape, node.output.shape
    extra = len(before) - len(after)
    if extra < 1 or not after or sum(size != 1 for size in before[: extra + 1]) < 2:
        return False
    return before[extra + 1 :] == after[1:] and math.prod(before[: extra + 1]) == after[0]


def _apart_inputs(node: Node, apart: dict[Value, Value]) -> tuple[list[Value], int] | None:
    """The inputs with their leading dims apart and how many dims that adds; None where it can't."""
    if not any(value in apart for value in node.inputs):
        return None
    rows = _row_inputs(node)
    if rows is None or any(value not in apart for value in rows):
        return None
    shapes = {apart[v].shape[: apart[v].rank - v.rank + 1] for v in rows}
    if len(shapes) != 1:
        return None
    inputs = [apart[value] if value in rows else value for value in node.inputs]
    return inputs, len(next(iter(shapes))) - 1


def _row_inputs(node: Node) -> list[Value] | None:
    """The inputs whose first dim is the rows; None for an op that mixes rows."""
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


def _shifted(node: Node, extra: int) -> dict[str, Any]:
    attrs = dict(node.attrs)
    if node.kind in _ALONG_DIM:
        attrs["dim"] += extra
    elif node.kind in _REDUCTIONS:
        attrs["dims"] = [dim + extra for dim in attrs["dims"]]
    return attrs
