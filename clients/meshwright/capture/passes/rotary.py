"""Rotary position embeddings written out."""

from __future__ import annotations

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Node, Program, Value


def recognise_rotary(program: Program) -> None:
    """x * cos + concat(-x2, x1) * sin, with x1 and x2 the halves of x, is rotary."""
    upstream = Upstream(program)
    added: dict[Node, list[Node]] = {}
    for node in program.nodes:
        if node.kind != "add" or len(node.inputs) != 2:
            continue
        for straight, turned in upstream.pairs(node.output, "add"):
            found = _rotated(upstream, straight, turned)
            if found is None:
                continue
            x, cos, sin = found
            tables = [_without_heads(upstream, table, node, added) for table in (cos, sin)]
            node.kind, node.inputs, node.attrs = "rotary", [x, *tables], {}
            break
    program.insert_before(added)


def _rotated(
    upstream: Upstream, straight: Value, turned: Value
) -> tuple[Value, Value, Value] | None:
    for x, cos in upstream.pairs(straight, "mul"):
        if x.rank != 4 or cos.rank != 4 or cos.shape[1] != 1 or x.shape[1] == 1:
            continue
        for halves, sin in upstream.pairs(turned, "mul"):
            if sin.shape == cos.shape and _is_half_turn(upstream, halves, x):
                return x, cos, sin
    return None


def _is_half_turn(upstream: Upstream, value: Value, x: Value) -> bool:
    """concat(-x[half:], x[:half]) along the last dim"""
    joined = upstream.made_by(value, "concat")
    if joined is None or joined.attrs["dim"] != x.rank - 1 or len(joined.inputs) != 2:
        return False
    negated, first = upstream.made_by(joined.inputs[0], "neg"), joined.inputs[1]
    if negated is None:
        return False
    half = x.shape[-1] // 2
    places = ((negated.inputs[0], half, 2 * half), (first, 0, half))
    for part, start, end in places:
        cut = upstream.made_by(part, "slice")
        if cut is None or cut.inputs[0] is not x or x.shape[-1] != 2 * half:
            return False
        attrs = cut.attrs
        if (attrs["dim"], attrs["start"], attrs["end"]) != (x.rank - 1, start, end):
            return False
    return True


def _without_heads(
    upstream: Upstream, table: Value, reader: Node, added: dict[Node, list[Node]]
) -> Value:
    """The table [b, s, d] behind a table [b, 1, s, d]."""
    wanted = (table.shape[0], *table.shape[2:])
    opened = upstream.made_by(table, "reshape")
    if opened is not None and opened.inputs[0].shape == wanted:
        return opened.inputs[0]
    made = Value("", wanted, table.dtype)
    view = Node("reshape", [table], [made], module=reader.module)
    added.setdefault(reader, []).append(view)
    return made
