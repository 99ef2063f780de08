"""One node of an ONNX model or of a jaxpr, as converters see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meshwright.capture.program import Node, Value
from meshwright.schema.graph import DType


@dataclass
class NodeCall:
    """A node with its attributes; inputs that are left out are None.

    namespace: what stands before the name of an operator without a kind. numbers: the inputs whose
    values are known, by position. Converters append to `nodes` through `step` and finish with `op`,
    or with `alias` where the result is one of the inputs.
    """

    kind: str
    inputs: list[Value | None]
    numbers: Mapping[int, np.ndarray[Any, Any]]
    attrs: Mapping[str, Any]
    results: list[Value]
    module: str
    namespace: str
    nodes: list[Node] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    @property
    def out(self) -> Value:
        return self.results[0]

    @property
    def x(self) -> Value:
        return self.value(0)

    def value(self, position: int) -> Value:
        """The tensor at this position, which the operator must have."""
        found = self.inputs[position]
        assert found is not None, f"{self.kind} without input {position}"
        return found

    def given(self, *positions: int) -> list[Value]:
        """The tensors at these positions that are not left out."""
        found = [self.inputs[p] for p in positions if p < len(self.inputs)]
        return [value for value in found if value is not None]

    def list_of(self, name: str, position: int) -> list[int] | None:
        """Whole numbers that stood in an attribute in old opsets and are an input since."""
        if name in self.attrs:
            return [int(own) for own in self.attrs[name]]
        numbers = self.numbers.get(position)
        return None if numbers is None else [int(own) for own in numbers.reshape(-1)]

    def scalar(self, position: int) -> float | int | bool | None:
        """The one number that an input is known to hold; None for any other input."""
        numbers = self.numbers.get(position)
        return None if numbers is None or numbers.size != 1 else numbers.reshape(-1)[0].item()

    def op(self, kind: str, inputs: Sequence[Value], /, **attrs: Any) -> None:
        """The node that makes the results."""
        self.nodes.append(Node(kind, list(inputs), self.results, attrs, self.module))
        self.values = self.results

    def step(
        self,
        kind: str,
        inputs: Sequence[Value],
        shape: Sequence[int],
        dtype: DType | None = None,
        **attrs: Any,
    ) -> Value:
        """A node on the way to the results, of the first input's dtype if none is given."""
        made = Value("", tuple(shape), dtype or inputs[0].dtype)
        self.nodes.append(Node(kind, list(inputs), [made], attrs, self.module))
        return made

    def alias(self, *values: Value) -> None:
        """The results are values that exist already."""
        self.values = list(values)

    def unknown(self) -> None:
        """Keep the operator's name; attrs hold its attributes."""
        inputs = [value for value in self.inputs if value is not None]
        plain = {key: own for key, own in self.attrs.items() if _is_plain(own)}
        self.op(f"{self.namespace}.{self.kind}.default", inputs, **plain)


def _is_plain(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    return isinstance(value, (bool, int, float, str))


Converter = Callable[[NodeCall], None]
