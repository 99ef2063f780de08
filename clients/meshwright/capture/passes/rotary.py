"""Recognition of decomposed rotary position embeddings."""

from __future__ import annotations

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Node, Program, Value


def recognize_rotary(program: Program) -> None:
    """x * cos + concat(-x2, x1) * sin, with x1 and x2 the halves of x, becomes rotary."""
    upstream = Upstream(program)
    additions: dict[Node, list[Node]] = {}
    for node in program.nodes:
        if node.kind != "add" or len(node.inputs) != 2:
            continue
        for straight, rotated in upstream.pairs(node.output, "add"):
            match = _match_rotation(upstream, straight, rotated)
            if match is None:
                continue
            x, cos, sin = match
            tables = [_without_heads(upstream, table, node, additions) for table in (cos, sin)]
            node.kind, node.inputs, node.attrs = "rotary", [x, *tables], {}
            break
    program.insert_before(additions)


def _match_rotation(
    upstream: Upstream, straight: Value, rotated: Value
) -> tuple[Value, Value, Value] | None:
    for x, cos in upstream.pairs(straight, "mul"):
        if x.rank != 4 or cos.rank != 4 or cos.shape[1] != 1 or x.shape[1] == 1:
            continue
        for halves, sin in upstream.pairs(rotated, "mul"):
            if sin.shape == cos.shape and _is_half_rotation(upstream, halves, x):
                return x, cos, sin
    return None


def _is_half_rotation(upstream: Upstream, value: Value, x: Value) -> bool:
    """Whether the value is concat(-x[half:], x[:half]) along the last dim."""
    concat = upstream.producer(value, "concat")
    if concat is None or concat.attrs["dim"] != x.rank - 1 or len(concat.inputs) != 2:
        return False
    negation, first = upstream.producer(concat.inputs[0], "neg"), concat.inputs[1]
    if negation is None:
        return False
    half = x.shape[-1] // 2
    places = ((negation.inputs[0], half, 2 * half), (first, 0, half))
    for part, start, end in places:
        part_slice = upstream.producer(part, "slice")
        if part_slice is None or part_slice.inputs[0] is not x or x.shape[-1] != 2 * half:
            return False
        attrs = part_slice.attrs
        if (attrs["dim"], attrs["start"], attrs["end"]) != (x.rank - 1, start, end):
            return False
    return True


def _without_heads(
    upstream: Upstream, table: Value, reader: Node, additions: dict[Node, list[Node]]
) -> Value:
    """The table [b, s, d] of a table [b, 1, s, d]."""
    shape = (table.shape[0], *table.shape[2:])
    unsqueezed = upstream.producer(table, "reshape")
    if unsqueezed is not None and unsqueezed.inputs[0].shape == shape:
        return unsqueezed.inputs[0]
    squeezed = Value("", shape, table.dtype)
    view = Node("reshape", [table], [squeezed], module=reader.module)
    additions.setdefault(reader, []).append(view)
    return squeezed
