"""Call of one node of an ONNX model or a jaxpr, for converters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meshwright.capture.program import Node, Value
from meshwright.schema.graph import DType


@dataclass
class NodeCall:
    """A node with its attributes; omitted inputs are None.

    namespace: the prefix of operators without a canonical kind. numbers: constant inputs, by
    position. Converters append to `nodes` through `step` and finish with `op`, or with `alias`
    where the result is one of the inputs.
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
        """The tensor at this position, which must exist."""
        value = self.inputs[position]
        assert value is not None, f"{self.kind} without input {position}"
        return value

    def present(self, *positions: int) -> list[Value]:
        """The tensors at these positions without omitted ones."""
        values = [self.inputs[p] for p in positions if p < len(self.inputs)]
        return [value for value in values if value is not None]

    def list_of(self, name: str, position: int) -> list[int] | None:
        """Integers of an attribute in old opsets, or of a constant input in new ones."""
        if name in self.attrs:
            return [int(item) for item in self.attrs[name]]
        numbers = self.numbers.get(position)
        return None if numbers is None else [int(item) for item in numbers.reshape(-1)]

    def scalar(self, position: int) -> float | int | bool | None:
        """The number of a constant input with one element; None for any other input."""
        numbers = self.numbers.get(position)
        return None if numbers is None or numbers.size != 1 else numbers.reshape(-1)[0].item()

    def op(self, kind: str, inputs: Sequence[Value], /, **attrs: Any) -> None:
        """Append the node that produces the results."""
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
        """Append an intermediate node; the default dtype is that of the first input."""
        result = Value("", tuple(shape), dtype or inputs[0].dtype)
        self.nodes.append(Node(kind, list(inputs), [result], attrs, self.module))
        return result

    def alias(self, *values: Value) -> None:
        """Use existing values as the results."""
        self.values = list(values)

    def unknown(self) -> None:
        """Append a node with the operator's name as its kind, and with its attributes."""
        inputs = [value for value in self.inputs if value is not None]
        plain = {key: attr for key, attr in self.attrs.items() if _is_plain(attr)}
        self.op(f"{self.namespace}.{self.kind}.default", inputs, **plain)


def _is_plain(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    return isinstance(value, (bool, int, float, str))


Converter = Callable[[NodeCall], None]
