"""Dead code elimination."""

from __future__ import annotations

from meshwright.capture.program import Program


def drop_dead_code(program: Program) -> None:
    """Drop every node without a needed result."""
    needed = set(program.outputs)
    if program.loss is not None:
        needed.add(program.loss)
    live = []
    for node in reversed(program.nodes):
        if any(value in needed for value in node.outputs):
            needed.update(node.inputs)
            live.append(node)
    program.nodes = live[::-1]
