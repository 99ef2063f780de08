"""Removal of repeated key-value heads in grouped-query attention."""

from __future__ import annotations

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Program, Value


def drop_repeated_heads(program: Program) -> None:
    """Let attention read the original key-value heads, which it shares between query heads."""
    upstream = Upstream(program)
    for node in program.nodes:
        if node.kind != "attention":
            continue
        query, key, value, *mask = node.inputs
        sources = [_before_repeat(upstream, tensor) for tensor in (key, value)]
        if sources[0] is not None and sources[1] is not None:
            node.inputs = [query, sources[0], sources[1], *mask]


def _before_repeat(upstream: Upstream, value: Value) -> Value | None:
    """The source [b, g, t, d] of [b, g * r, t, d] with each head repeated r times."""
    merged = upstream.producer(value, "reshape")
    expanded = merged and upstream.producer(merged.inputs[0], "expand")
    unsqueezed = expanded and upstream.producer(expanded.inputs[0], "reshape")
    if unsqueezed is None or expanded is None or value.rank != 4:
        return None
    source, wide = unsqueezed.inputs[0], expanded.output.shape
    if source.rank != 4 or len(wide) != 5:
        return None
    batch, groups, length, dim = source.shape
    if (wide[:2], wide[3:]) != ((batch, groups), (length, dim)):
        return None
    if unsqueezed.output.shape != (batch, groups, 1, length, dim):
        return None
    return source if value.shape == (batch, groups * wide[2], length, dim) else None
