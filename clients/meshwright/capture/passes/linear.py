"""Multiplications by a parameter."""

from __future__ import annotations

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Program, Value


def recognise_linear(program: Program) -> None:
    """matmul by a two-dim parameter, or by its transpose, is linear; so is adding its bias."""
    upstream = Upstream(program)
    for node in program.nodes:
        if node.kind == "matmul" and node.inputs[0].rank > 1:
            left, right = node.inputs
            if _is_weight(right):
                node.kind, node.attrs = "linear", {"weight_layout": "kn"}
            elif (turned := upstream.made_by(right, "transpose")) and _is_weight(turned.inputs[0]):
                node.kind, node.attrs = "linear", {"weight_layout": "nk"}
                node.inputs = [left, turned.inputs[0]]
        elif node.kind == "linear":
            turned = upstream.made_by(node.inputs[1], "transpose")
            if turned is not None and _is_weight(turned.inputs[0]):
                layout = "kn" if node.attrs["weight_layout"] == "nk" else "nk"
                node.attrs = {"weight_layout": layout}
                node.inputs = [node.inputs[0], turned.inputs[0], *node.inputs[2:]]


def _is_weight(value: Value) -> bool:
    return value.role == "parameter" and value.rank == 2
