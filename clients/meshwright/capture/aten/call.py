"""Call of one ATen operator, for converters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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


def torch_dtype(name: DType) -> torch.dtype:
    """The torch dtype of a name of the schema."""
    return next(dtype for dtype, known in _DTYPES.items() if known == name)


@dataclass
class AtenCall:
    """A call with its arguments by schema name, with defaults; tensors are values.

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
        """Append the node that produces the results."""
        self._add(kind, inputs, self.results, attrs)
        self.values = self.results

    def op_with_saved(self, kind: str, inputs: Sequence[Value], saved: Value, **attrs: Any) -> None:
        """Append the node that produces the results and a tensor saved for its backward pass."""
        self._add(kind, inputs, [*self.results, saved], attrs)
        self.values = self.results

    def step(
        self,
        kind: str,
        inputs: Sequence[Value],
        shape: Sequence[int],
        **attrs: Any,
    ) -> Value:
        """Append an intermediate node of the first input's dtype."""
        result = Value("", tuple(shape), inputs[0].dtype)
        self._add(kind, inputs, [result], attrs)
        return result

    def cast(self, source: Value, dtype: DType) -> Value:
        """The value in a dtype; the value itself if it has the dtype."""
        if source.dtype == dtype:
            return source
        result = Value("", source.shape, dtype)
        self._add("cast", [source], [result], {"dtype": dtype})
        return result

    def alias(self, *values: Value) -> None:
        """Use existing values as the results."""
        self.values = list(values)

    def unknown(self) -> None:
        """Append a node with the ATen name as kind, arguments in attrs, and inputs in `tensors`."""
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


Converter = Callable[[AtenCall], None]


def result_values(results: Any) -> list[Value]:
    """New values for the tensors that a call returns."""
    items = results if isinstance(results, (list, tuple)) else [results]
    return [
        Value("", tuple(int(size) for size in item.shape), dtype_name(item.dtype))
        for item in items
        if isinstance(item, torch.Tensor)
    ]


def arguments_by_name(
    operator: torch._ops.OpOverload, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments by the names of the operator's schema, with defaults."""
    by_name: dict[str, Any] = {}
    for position, argument in enumerate(operator._schema.arguments):
        if position < len(arguments):
            by_name[argument.name] = arguments[position]
        elif argument.name in keywords:
            by_name[argument.name] = keywords[argument.name]
        elif argument.has_default_value():
            by_name[argument.name] = argument.default_value
    return by_name


def plain_attr(value: Any) -> Any:
    """A scalar, dtype or list of them as JSON; None for other values."""
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
    """Dims as a sorted list of nonnegative numbers; all dims for None and for []."""
    if dims is None or (not isinstance(dims, int) and not dims):
        return list(range(rank))
    dim_list = [dims] if isinstance(dims, int) else dims
    return sorted(dim % rank if rank else 0 for dim in dim_list)
