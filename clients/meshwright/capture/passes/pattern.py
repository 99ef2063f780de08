"""Upstream queries for pattern matching.

A pattern is matched backwards from its last op and replaces only that op. Dead code elimination
removes the other ops, so that inner values with other readers stay valid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from meshwright.capture.program import Node, Program, Value


class Upstream:
    """Producers of the values of a program, without nodes added later."""

    def __init__(self, program: Program) -> None:
        self._producers = program.producers()
        self._witness = program.witness

    def producer(self, value: Value, kind: str) -> Node | None:
        """The producer of the value, if it has this kind."""
        node = self._producers.get(value)
        return node if node is not None and node.kind == kind else None

    def through(self, value: Value, kind: str) -> Value:
        """The input of the value's producer if it has this kind, else the value itself."""
        node = self.producer(value, kind)
        return value if node is None else node.inputs[0]

    def scalar(self, value: Value, kind: str, attr: str = "other") -> tuple[Value, float] | None:
        """The tensor operand and the number of a node `tensor (kind) number`, or None.

        A symbolic size is no number: a pattern would keep it as that of the trace.
        """
        node = self.producer(value, kind)
        number = None if node is None else node.attrs.get(attr)
        if node is None or len(node.inputs) != 1 or not isinstance(number, (int, float)):
            return None
        if isinstance(number, int) and isinstance(self._witness.size(abs(number)), str):
            return None
        return node.inputs[0], float(number)

    def with_number(
        self, value: Value, kind: str, number: float, attr: str = "other"
    ) -> Value | None:
        """The tensor operand of a node `tensor (kind) number` with this number, or None."""
        operands = self.scalar(value, kind, attr)
        if operands is None or not math.isclose(operands[1], number, rel_tol=1e-4):
            return None
        return operands[0]

    def pairs(self, value: Value, kind: str) -> Iterator[tuple[Value, Value]]:
        """Both orders of the inputs of a commutative node."""
        node = self.producer(value, kind)
        if node is not None and len(node.inputs) == 2:
            left, right = node.inputs
            yield left, right
            yield right, left
