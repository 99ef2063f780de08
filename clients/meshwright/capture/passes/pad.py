"""Recognition of padding: a value between constants."""

from __future__ import annotations

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Program, Value


def recognize_pads(program: Program) -> None:
    """Convert a concat of one value with equal constants at its ends to pad."""
    upstream = Upstream(program)
    for node in program.nodes:
        if node.kind != "concat":
            continue
        dim = node.attrs["dim"]
        numbers = [_constant(upstream, value) for value in node.inputs]
        places = [place for place, number in enumerate(numbers) if number is None]
        ends = {number for number in numbers if number is not None}
        if len(places) != 1 or len(ends) != 1:
            continue
        (place,) = places
        before, after = (
            sum(value.shape[dim] for value in part)
            for part in (node.inputs[:place], node.inputs[place + 1 :])
        )
        # the attribute `pads` holds numbers, never symbolic sizes
        if any(isinstance(program.witness.size(length), str) for length in (before, after)):
            continue
        pads = [[before, after] if d == dim else [0, 0] for d in range(node.output.rank)]
        node.kind, node.inputs = "pad", [node.inputs[place]]
        node.attrs = {"pads": pads, "mode": "constant", "value": ends.pop()}


def _constant(upstream: Upstream, value: Value) -> float | int | str | None:
    """The number in every element of the value; None for a value that varies."""
    full = upstream.producer(value, "full")
    number: float | int | str | None = None if full is None else full.attrs["value"]
    return number
