"""Removal of ops that stop no gradient."""

from __future__ import annotations

from meshwright.capture.program import Program, Value


def drop_needless_stops(program: Program) -> None:
    """Drop each stop_gradient through which no gradient would reach a trainable parameter."""
    trained = {value for value in program.sources if value.role == "parameter" and value.trainable}
    substitutes: dict[Value, Value] = {}
    nodes = []
    for node in program.nodes:
        if node.kind == "stop_gradient":
            if node.inputs[0] not in trained:
                substitutes[node.output] = node.inputs[0]
                continue
        elif any(value in trained for value in node.inputs):
            trained.update(value for value in node.outputs if value.is_differentiable)
        nodes.append(node)
    program.nodes = nodes
    program.replace(substitutes)
