"""Heads that are merged with the batch before attention, as dims of their own.

    [s, b * h, d] -> transpose -> [b * h, s, d] -> reshape -> [b, h, s, d]

is the reshape [s, b, h, d] and one transpose; and the same backwards behind attention. The merged
dim is gone once consecutive views are merged, so that batch and heads can be sharded.
"""

from __future__ import annotations

from meshwright.capture.passes.dim_groups import groups
from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Node, Program, Value


def separate_heads(program: Program) -> None:
    """Split merged dims before the transposes in front of attention, and merge them behind."""
    upstream, readers = Upstream(program), program.readers()
    additions: dict[Node, list[Node]] = {}
    for node in program.nodes:
        if node.kind != "attention":
            continue
        for value in node.inputs[:3]:
            reshape = upstream.producer(value, "reshape")
            transpose = reshape and upstream.producer(reshape.inputs[0], "transpose")
            if reshape and transpose:
                _split_first(reshape, transpose, additions)
        for reshape in readers.get(node.output, ()):
            for transpose in readers.get(reshape.output, ()) if reshape.kind == "reshape" else ():
                if transpose.kind == "transpose":
                    _merge_last(reshape, transpose, additions)
    program.insert_before(additions)


def _split_first(reshape: Node, transpose: Node, additions: dict[Node, list[Node]]) -> None:
    """Make the reshape a transpose behind a new reshape."""
    order, shape = list(transpose.attrs["dims"]), reshape.output.shape
    parts = None if 1 in shape else groups(transpose.output.shape, shape)
    if parts is None:
        return
    before = [part for dim in range(len(order)) for part in parts[order.index(dim)]]
    split = Value("", tuple(shape[part] for part in before), reshape.output.dtype)
    additions[reshape] = [Node("reshape", transpose.inputs, [split], module=reshape.module)]
    reshape.kind, reshape.inputs = "transpose", [split]
    reshape.attrs = {"dims": [before.index(part) for part in range(len(shape))]}


def _merge_last(reshape: Node, transpose: Node, additions: dict[Node, list[Node]]) -> None:
    """Make the transpose a reshape behind a new transpose."""
    source = reshape.inputs[0]
    parts = None if 1 in source.shape else groups(reshape.output.shape, source.shape)
    if parts is None:
        return
    dims = [part for dim in transpose.attrs["dims"] for part in parts[dim]]
    moved = Value("", tuple(source.shape[dim] for dim in dims), source.dtype)
    additions[transpose] = [Node("transpose", [source], [moved], {"dims": dims}, transpose.module)]
    transpose.kind, transpose.inputs, transpose.attrs = "reshape", [moved], {}
