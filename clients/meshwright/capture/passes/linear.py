"""Recognition of linear layers: matmuls with a parameter."""

from __future__ import annotations

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Program, Value


def recognize_linear(program: Program) -> None:
    """Convert a matmul with a 2-D parameter, a cast of one or a transpose of them to linear."""
    upstream = Upstream(program)
    for node in program.nodes:
        if node.kind == "matmul" and node.inputs[0].rank > 1:
            left, right = node.inputs
            if _is_weight(right):
                node.kind, node.attrs = "linear", {"weight_layout": "kn"}
            elif (transpose := upstream.producer(right, "transpose")) and _is_weight(
                transpose.inputs[0]
            ):
                node.kind, node.attrs = "linear", {"weight_layout": "nk"}
                node.inputs = [left, transpose.inputs[0]]
        elif node.kind == "linear":
            transpose = upstream.producer(node.inputs[1], "transpose")
            if transpose is not None and _is_weight(transpose.inputs[0]):
                layout = "kn" if node.attrs["weight_layout"] == "nk" else "nk"
                node.attrs = {"weight_layout": layout}
                node.inputs = [node.inputs[0], transpose.inputs[0], *node.inputs[2:]]


def _is_weight(value: Value) -> bool:
    return value.is_weight and value.rank == 2
