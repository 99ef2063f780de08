"""Broadcasts that the op which reads them does by itself."""

from __future__ import annotations

from meshwright.capture.program import Node, Program, Value

_BROADCAST = frozenset({
    "add", "sub", "mul", "div", "pow", "maximum", "minimum", "eq", "ne", "lt", "gt", "le", "ge",
    "logical_and", "logical_or", "where",
})  # fmt: skip


def drop_broadcasts(program: Program) -> None:
    """jax expands before it adds; an element-wise op of a graph reads what was expanded."""
    makers = program.producers()
    for node in program.nodes:
        if node.kind in _BROADCAST:
            _read_before(node, makers)


def _read_before(node: Node, makers: dict[Value, Node]) -> None:
    """The inputs before they were expanded, as long as one other has the whole shape."""
    for position, value in enumerate(node.inputs):
        maker = makers.get(value)
        others = [own for place, own in enumerate(node.inputs) if place != position]
        if maker is None or not _only_grows(maker):
            continue
        if any(own.shape == node.output.shape for own in others):
            node.inputs[position] = maker.inputs[0]


def _only_grows(maker: Node) -> bool:
    """Whether a value is an expanded one, or one with more dims in front."""
    if maker.kind != "reshape":
        return maker.kind == "expand"
    before, behind = maker.inputs[0].shape, maker.output.shape
    return behind == (1,) * (len(behind) - len(before)) + before
