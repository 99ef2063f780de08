"""Nodes that no output depends on."""

from __future__ import annotations

from meshwright.capture.program import Program


def drop_dead_code(program: Program) -> None:
    """Drop every node none of whose results is needed."""
    needed = set(program.outputs)
    if program.loss is not None:
        needed.add(program.loss)
    kept = []
    for node in reversed(program.nodes):
        if any(value in needed for value in node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    program.nodes = kept[::-1]
