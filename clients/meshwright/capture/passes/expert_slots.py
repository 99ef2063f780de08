"""Rows of experts as slots [e, b, c, ...]: what both spellings of experts share."""

from __future__ import annotations

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Node, Value


def expert_weight(upstream: Upstream, weight: Value) -> tuple[Value, str]:
    """The weight of all experts without a transpose, and its layout for `expert_matmul`."""
    transpose = upstream.producer(weight, "transpose")
    if transpose is not None and list(transpose.attrs["dims"]) == [0, 2, 1]:
        return transpose.inputs[0], "efh"
    return weight, "ehf"


def row_wise(node: Node, slots: dict[Value, Value], attrs: dict[str, object]) -> Node:
    """The op of a node, on slots instead of rows; `slots` gets the slots of its outputs."""
    inputs = [slots[value] for value in node.inputs]
    lead = inputs[0].shape[:-1]
    outputs = [Value("", (*lead, v.shape[-1]), v.dtype) for v in node.outputs]
    slots.update(zip(node.outputs, outputs, strict=True))
    return Node(node.kind, inputs, outputs, attrs, node.module)
