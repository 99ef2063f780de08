"""One ATen call as converters see it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch

from meshwright.capture.program import Node, Value
from meshwright.schema.graph import DTYPE_BYTES, DType

_DTYPES: dict[torch.dtype, str] = {
    torch.float8_e4m3fn: "float8_e4m3",
    torch.float8_e5m2: "float8_e5m2",
    **{
        getattr(torch, name): name
        for name in DTYPE_BYTES
        if isinstance(getattr(torch, name, None), torch.dtype)
    },
}


def dtype_name(dtype: torch.dtype) -> DType:
    """The schema's name of a torch dtype."""
    return cast(DType, _DTYPES[dtype])


@dataclass
class Call:
    """A call with its arguments by schema name (values in place of tensors, defaults filled in).

    Converters append to `nodes` through `step` and finish with `op`, or with `alias` where the
    result is one of the inputs.
    """

    target: str
    args: dict[str, Any]
    results: list[Value]
    module: str
    nodes: list[Node] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    @property
    def out(self) -> Value:
        return self.results[0]

    def op(self, kind: str, inputs: Sequence[Value], /, **attrs: Any) -> None:
        """The node that makes the results."""
        self._add(kind, inputs, self.results, attrs)
        self.values = self.results

    def op_and(self, kind: str, inputs: Sequence[Value], kept: Value, **attrs: Any) -> None:
        """The node that makes the results, and what its backward pass needs besides."""
        self._add(kind, inputs, [*self.results, kept], attrs)
        self.values = self.results

    def step(
        self,
        kind: str,
        inputs: Sequence[Value],
        shape: Sequence[int],
        **attrs: Any,
    ) -> Value:
        """A node on the way to the results, of the first input's dtype."""
        made = Value("", tuple(shape), inputs[0].dtype)
        self._add(kind, inputs, [made], attrs)
        return made

    def cast(self, source: Value, dtype: DType) -> Value:
        """The value in another dtype; itself where it has that one."""
        if source.dtype == dtype:
            return source
        made = Value("", source.shape, dtype)
        self._add("cast", [source], [made], {"dtype": dtype})
        return made

    def alias(self, *values: Value) -> None:
        """The results are values that exist already."""
        self.values = list(values)

    def unknown(self) -> None:
        """Keep the ATen name; attrs hold the arguments, and `tensors` the place of each input."""
        inputs: list[Value] = []
        places: list[str] = []
        attrs: dict[str, Any] = {}
        for name, value in self.args.items():
            if isinstance(value, Value):
                inputs.append(value)
                places.append(name)
            elif isinstance(value, (list, tuple)) and any(isinstance(v, Value) for v in value):
                for position, item in enumerate(value):
                    if isinstance(item, Value):
                        inputs.append(item)
                        places.append(f"{name}.{position}")
            elif (plain := plain_attr(value)) is not None:
                attrs[name] = plain
        self._add(self.target, inputs, self.results, {**attrs, "tensors": places})
        self.values = self.results

    def _add(
        self, kind: str, inputs: Sequence[Value], outputs: list[Value], attrs: dict[str, Any]
    ) -> None:
        self.nodes.append(Node(kind, list(inputs), outputs, attrs, self.module))


Converter = Callable[[Call], None]


def plain_attr(value: Any) -> Any:
    """A scalar, dtype or list of them as JSON; None for what a graph has no use for."""
    if isinstance(value, torch.dtype):
        return dtype_name(value)
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return [plain_attr(item) for item in value]
    return None


def dims_of(dims: int | Sequence[int] | None, rank: int) -> list[int]:
    """Dims as a sorted list counted from the front; all of them for None and for []."""
    if dims is None or (not isinstance(dims, int) and not dims):
        return list(range(rank))
    given = [dims] if isinstance(dims, int) else dims
    return sorted(dim % rank if rank else 0 for dim in given)
