"""Merging of consecutive views."""

from __future__ import annotations

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Program, Value


def merge_views(program: Program) -> None:
    """Merge chains of reshapes and of transposes, and drop identities."""
    upstream = Upstream(program)
    substitutes: dict[Value, Value] = {}
    for node in program.nodes:
        if node.kind not in ("reshape", "transpose"):
            continue
        source = substitutes.get(node.inputs[0], node.inputs[0])
        while (before := upstream.producer(source, node.kind)) is not None:
            if node.kind == "transpose":
                node.attrs = {"dims": [before.attrs["dims"][dim] for dim in node.attrs["dims"]]}
            source = substitutes.get(before.inputs[0], before.inputs[0])
        node.inputs = [source]
        is_identity = (
            source.shape == node.output.shape
            if node.kind == "reshape"
            else node.attrs["dims"] == list(range(source.rank))
        )
        if is_identity:
            substitutes[node.output] = source
    program.nodes = [node for node in program.nodes if node.output not in substitutes]
    program.replace(substitutes)
