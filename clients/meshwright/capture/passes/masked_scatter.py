"""masked_scatter of equally many rows a sample, such as the features of one image, as one op.

torch fills the true places of the whole mask with the elements of the source, in order. With as
many true places in every sample as the source has rows for it, each sample takes rows of its own,
and the batch can be sharded. A note of the program states the number of rows.
"""

from __future__ import annotations

import math

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Node, Program, Value

_ATEN = "aten.masked_scatter.default"


def recognize_masked_scatter(program: Program) -> None:
    """Replace the ATen op by `masked_scatter` where the rows divide evenly among the samples."""
    upstream = Upstream(program)
    additions: dict[Node, list[Node]] = {}
    for node in program.nodes:
        if node.kind != _ATEN:
            continue
        x, mask, source = node.inputs
        row_mask = _mask_of_rows(upstream, x, mask)
        count = _rows_of_a_sample(x, source)
        if row_mask is None or count is None:
            continue
        steps: list[Node] = []
        rows = _reshaped(source, (x.shape[0], count, *x.shape[2:]), node, "rows", steps)
        flags = _reshaped(row_mask, tuple(x.shape[:2]), node, "mask", steps)
        additions[node] = steps
        node.kind, node.inputs, node.attrs = "masked_scatter", [x, flags, rows], {}
        program.notes.append(
            f"{node.module or 'the model'}: every sample is taken to have {count} places for the "
            "features of its images or sound"
        )
    program.insert_before(additions)


def _mask_of_rows(upstream: Upstream, x: Value, mask: Value) -> Value | None:
    """The mask with one element for each row of x, before it was repeated over the row."""
    if x.rank == 2:
        return mask if mask.shape == x.shape else None
    narrow = upstream.through(mask, "expand")
    lead, trail = narrow.shape[:2], narrow.shape[2:]
    return narrow if lead == x.shape[:2] and math.prod(trail) == 1 else None


def _rows_of_a_sample(x: Value, source: Value) -> int | None:
    elements = x.shape[0] * math.prod(x.shape[2:])
    count, rest = divmod(math.prod(source.shape), elements)
    return count if 0 < count < x.shape[1] and not rest else None


def _reshaped(
    value: Value, shape: tuple[int, ...], node: Node, suffix: str, steps: list[Node]
) -> Value:
    if value.shape == shape:
        return value
    result = Value(f"{node.output.name}.{suffix}", shape, value.dtype)
    steps.append(Node("reshape", [value], [result], {}, node.module))
    return result
