"""Removal of broadcasts before element-wise ops, which broadcast implicitly."""

from __future__ import annotations

from meshwright.capture.program import Node, Program, Value

_BROADCAST = frozenset({
    "add", "sub", "mul", "div", "pow", "maximum", "minimum", "eq", "ne", "lt", "gt", "le", "ge",
    "logical_and", "logical_or", "where",
})  # fmt: skip


def drop_broadcasts(program: Program) -> None:
    """Let element-wise ops read the inputs of explicit expands of jax."""
    makers = program.producers()
    for node in program.nodes:
        if node.kind in _BROADCAST:
            _skip_expands(node, makers)


def _skip_expands(node: Node, makers: dict[Value, Node]) -> None:
    """Replace expanded inputs by their sources, if another input has the result's shape."""
    for position, value in enumerate(node.inputs):
        maker = makers.get(value)
        others = [other for place, other in enumerate(node.inputs) if place != position]
        if maker is None or not _is_broadcast(maker):
            continue
        if any(other.shape == node.output.shape for other in others):
            node.inputs[position] = maker.inputs[0]


def _is_broadcast(maker: Node) -> bool:
    """Whether a node is an expand, or a reshape that adds leading dims of one."""
    if maker.kind != "reshape":
        return maker.kind == "expand"
    before, behind = maker.inputs[0].shape, maker.output.shape
    return behind == (1,) * (len(behind) - len(before)) + before
