"""Removal of identity ops and of empty inputs of concats."""

from __future__ import annotations

from meshwright.capture.program import Node, Program, Value

_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "div": 1}


def drop_identities(program: Program) -> None:
    """Drop casts to the same dtype, + 0, * 1, and expands and transposes without effect.

    Concats lose their empty inputs, which partial rotary embeddings of the full dim have.
    """
    substitutes: dict[Value, Value] = {}
    for node in program.nodes:
        if node.kind == "concat":
            node.inputs = [v for v in node.inputs if 0 not in v.shape] or node.inputs[:1]
        if _is_identity(node):
            substitutes[node.output] = node.inputs[0]
    program.nodes = [node for node in program.nodes if node.output not in substitutes]
    program.replace(substitutes)


def _is_identity(node: Node) -> bool:
    if len(node.inputs) != 1 or len(node.outputs) != 1:
        return False
    source, result = node.inputs[0], node.output
    if source.shape != result.shape or source.dtype != result.dtype:
        return False
    match node.kind:
        case "cast" | "expand" | "concat":
            return True
        case "transpose":
            return list(node.attrs["dims"]) == list(range(source.rank))
        case "add" | "sub" | "mul" | "div":
            return bool(node.attrs.get("other") == _NEUTRAL[node.kind])
        case _:
            return False
