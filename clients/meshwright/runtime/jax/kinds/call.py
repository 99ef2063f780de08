"""One op while it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from meshwright.schema import Op
from meshwright.schema.attrs import read_attrs

A = jax.Array
_OTHER_NAMES = {"float8_e4m3": "float8_e4m3fn"}


@dataclass(frozen=True)
class Call:
    """An op with its inputs, its attrs with sizes in numbers, and what its outputs must be."""

    op: Op
    inputs: Sequence[A]
    attrs: Mapping[str, Any]
    shapes: Sequence[tuple[int, ...]]
    dtypes: Sequence[jnp.dtype[Any]]

    @property
    def x(self) -> A:
        return self.inputs[0]

    def optional(self, position: int) -> A | None:
        """The input at this position, None where the op has fewer."""
        return self.inputs[position] if position < len(self.inputs) else None


Kernel = Callable[[Call], Any]


def dtype_of(name: str, replaced: Mapping[str, str]) -> jnp.dtype[Any]:
    """jax's dtype; replaced: names that run as others."""
    own = replaced.get(name, name)
    return jnp.dtype(_OTHER_NAMES.get(own, own))


def call_of(
    op: Op,
    inputs: Sequence[A],
    *,
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[str],
    sizes: Mapping[str, int],
    replaced: Mapping[str, str],
) -> Call:
    """One op as its kernel sees it.

    shapes, dtypes: of its outputs. sizes: of the symbols. replaced: dtypes of the graph that run as
    others.
    """
    attrs = read_attrs(op.attrs, sizes, lambda name: dtype_of(name, replaced))
    return Call(op, inputs, attrs, shapes, [dtype_of(name, replaced) for name in dtypes])
