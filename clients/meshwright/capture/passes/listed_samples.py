"""Joining of samples that a program handled as a list, such as the images of a batch.

A split along the first dim and a concat or stack along it leave the order of the elements as it is:

    concat(reshape(split(x)_0), reshape(split(x)_1), ...)    -> reshape(x)
    stack(split(x)_0, split(x)_1, ...)                       -> reshape(x)
"""

from __future__ import annotations

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Node, Program, Value


def join_listed_samples(program: Program) -> None:
    """Replace joins of all parts of a split along the first dim by a reshape."""
    upstream = Upstream(program)
    for node in program.nodes:
        if node.kind not in ("concat", "stack") or node.attrs.get("dim") != 0:
            continue
        split = _split_of(upstream, node.inputs[0])
        if split is None or len(split.outputs) != len(node.inputs):
            continue
        parts = [upstream.through(value, "reshape") for value in node.inputs]
        if parts == split.outputs:
            node.kind, node.inputs, node.attrs = "reshape", [split.inputs[0]], {}


def _split_of(upstream: Upstream, value: Value) -> Node | None:
    split = upstream.producer(upstream.through(value, "reshape"), "split")
    return split if split is not None and split.attrs["dim"] == 0 else None
