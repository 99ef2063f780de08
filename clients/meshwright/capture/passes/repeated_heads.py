"""Keys and values repeated for the query heads that share them."""

from __future__ import annotations

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Program, Value


def drop_repeated_heads(program: Program) -> None:
    """attention reads the key-value heads as they are; sharing them is part of its meaning."""
    upstream = Upstream(program)
    for node in program.nodes:
        if node.kind != "attention":
            continue
        query, key, value, *mask = node.inputs
        single = [_before_repeat(upstream, tensor) for tensor in (key, value)]
        if single[0] is not None and single[1] is not None:
            node.inputs = [query, single[0], single[1], *mask]


def _before_repeat(upstream: Upstream, value: Value) -> Value | None:
    """[b, g, t, d] behind [b, g * r, t, d], where each head stands r times in a row."""
    merged = upstream.made_by(value, "reshape")
    grown = merged and upstream.made_by(merged.inputs[0], "expand")
    opened = grown and upstream.made_by(grown.inputs[0], "reshape")
    if opened is None or grown is None or value.rank != 4:
        return None
    source, wide = opened.inputs[0], grown.output.shape
    if source.rank != 4 or len(wide) != 5:
        return None
    batch, groups, length, dim = source.shape
    if (wide[:2], wide[3:]) != ((batch, groups), (length, dim)):
        return None
    if opened.output.shape != (batch, groups, 1, length, dim):
        return None
    return source if value.shape == (batch, groups * wide[2], length, dim) else None
