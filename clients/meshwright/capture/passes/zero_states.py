"""Recurrent layers without an initial state: a state of zeros is dropped."""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.capture.program import Node, Program, Value
from meshwright.schema.recurrent_inputs import GATES

_PASSED = frozenset({"slice", "reshape", "transpose", "expand", "cast", "split"})


def drop_zero_states(program: Program) -> None:
    """Drop the initial states of layers that start from zeros, as PyTorch makes them by default."""
    producers = program.producers()
    for node in program.nodes:
        if node.kind not in GATES or not node.attrs["state"]:
            continue
        count = 2 if node.kind == "lstm" else 1
        if all(_is_zero(value, producers) for value in node.inputs[-count:]):
            node.inputs = node.inputs[:-count]
            node.attrs = {**node.attrs, "state": False}


def _is_zero(value: Value, producers: Mapping[Value, Node]) -> bool:
    node = producers.get(value)
    while node is not None and node.kind in _PASSED:
        node = producers.get(node.inputs[0])
    return node is not None and node.kind == "full" and node.attrs["value"] == 0
