"""Looking upstream: the small questions that patterns are made of.

Patterns are matched from their last op backwards and replace only that op; what nothing reads any
more is dropped as dead code, so that a pattern whose inner values are read elsewhere stays right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from meshwright.capture.program import Node, Program, Value


class Upstream:
    """Where values of a program come from. Does not see nodes added later."""

    def __init__(self, program: Program) -> None:
        self._producers = program.producers()

    def made_by(self, value: Value, kind: str) -> Node | None:
        """The node that makes the value, if it is of this kind."""
        node = self._producers.get(value)
        return node if node is not None and node.kind == kind else None

    def through(self, value: Value, kind: str) -> Value:
        """The value before a node of this kind, or the value itself."""
        node = self.made_by(value, kind)
        return value if node is None else node.inputs[0]

    def scalar(self, value: Value, kind: str, attr: str = "other") -> tuple[Value, float] | None:
        """The other side and the number, where the value is `other side (kind) number`."""
        node = self.made_by(value, kind)
        number = None if node is None else node.attrs.get(attr)
        if node is None or len(node.inputs) != 1 or not isinstance(number, (int, float)):
            return None
        return node.inputs[0], float(number)

    def with_number(
        self, value: Value, kind: str, number: float, attr: str = "other"
    ) -> Value | None:
        """The other side, where the value is `other side (kind) number`."""
        found = self.scalar(value, kind, attr)
        if found is None or not math.isclose(found[1], number, rel_tol=1e-4):
            return None
        return found[0]

    def pairs(self, value: Value, kind: str) -> Iterator[tuple[Value, Value]]:
        """Both orders of the inputs of a commutative node."""
        node = self.made_by(value, kind)
        if node is not None and len(node.inputs) == 2:
            left, right = node.inputs
            yield left, right
            yield right, left
