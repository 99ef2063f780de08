"""A kernel call: one op on whole arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Factor, Notation

Array = NDArray[Any]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpaqueSignature:
    """The rule of an op of unknown kind.

    sizes: of the factors. dtypes: of the outputs.
    """

    rule: Notation
    sizes: Mapping[Factor, int]
    dtypes: tuple[Literal["float64", "int64", "bool"], ...]


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A call of an op on arrays of its full shapes: float64, int64 or bool.

    Sizes come from the inputs and `output_shapes`; sizes among the attrs may be those of a larger
    graph, or expressions. denominator: for a mean loss, the number of valid labels of all devices,
    where the device has only some of the rows. signature: for a kind without a kernel of its own.
    """

    kind: str
    attrs: Mapping[str, Any]
    inputs: tuple[Array, ...]
    output_shapes: tuple[Shape, ...]
    denominator: float | None = None
    signature: OpaqueSignature | None = None

    @property
    def x(self) -> Array:
        return self.inputs[0]

    @property
    def shape(self) -> Shape:
        """The shape of the first output."""
        return self.output_shapes[0]

    def optional(self, position: int) -> Array | None:
        """The input at this position; None where the op has fewer inputs."""
        return self.inputs[position] if position < len(self.inputs) else None

    def number(self, name: str, default: float) -> float | int | bool:
        """An attr as a number, infinities read from text; `default` where it is missing."""
        return read_number(self.attrs.get(name), default)

    def dim(self, default: int, *, rank: int | None = None) -> int:
        """The attr `dim`, counted from the front, of the first input's dims or of `rank`."""
        dim = self.attrs.get("dim")
        if dim is None:
            dims = self.attrs.get("dims")
            dim = default if dims is None else dims if isinstance(dims, int) else dims[0]
        return int(dim) % max(1, self.x.ndim if rank is None else rank)

    def per_dim(self, name: str, count: int, default: int) -> tuple[int, ...]:
        """An attr with one whole number for each of `count` dims, or one for all."""
        attr = self.attrs.get(name)
        if attr is None or isinstance(attr, str):
            return (default,) * count
        values = list(attr) if isinstance(attr, (list, tuple)) else [attr]
        values = values * count if len(values) == 1 else values
        return tuple(v if isinstance(v, int) else default for v in values)


def read_number(value: object, default: float) -> float | int | bool:
    """A number, or the text of an infinity; `default` for an expression or nothing."""
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str) and value.strip() in ("inf", "-inf", "nan"):
        return float(value)
    return default


class NotExecutable(Exception):
    """A kind, or a mode of it, without a numpy implementation."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(f"not verifiable: {kind}: {why}")
        self.kind = kind


def is_float(array: Array) -> bool:
    """Whether gradients flow through an array."""
    return np.issubdtype(array.dtype, np.floating)


def reduced_to(shape: Shape, gradient: Array) -> Array:
    """A gradient summed over the dims in which `shape` was broadcast."""
    lead = gradient.ndim - len(shape)
    dims = tuple(range(lead)) + tuple(
        lead + d for d, size in enumerate(shape) if size == 1 and gradient.shape[lead + d] != 1
    )
    return gradient.sum(axis=dims).reshape(shape) if dims else gradient.reshape(shape)


def scaled(gradient: Array, factor: Array) -> Array:
    """gradient * factor; zero where the gradient is zero, even if the factor is not a number there.

    Outside of a device's part the values are zeros, and a factor such as 1/x is infinite.
    """
    return np.where(gradient == 0, 0.0, gradient * factor)
