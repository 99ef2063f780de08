"""Op calls: one op with its inputs and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from meshwright.schema import Op
from meshwright.schema.op_attrs import read_attrs

A = jax.Array
_OTHER_NAMES = {"float8_e4m3": "float8_e4m3fn"}


@dataclass(frozen=True)
class JaxOpCall:
    """An op with its inputs, evaluated attributes, and the shapes and dtypes of its outputs."""

    op: Op
    inputs: Sequence[A]
    attrs: Mapping[str, Any]
    shapes: Sequence[tuple[int, ...]]
    dtypes: Sequence[jnp.dtype[Any]]

    @property
    def x(self) -> A:
        return self.inputs[0]

    def optional(self, position: int) -> A | None:
        """The input at this position; None if the op has fewer inputs."""
        return self.inputs[position] if position < len(self.inputs) else None


Kernel = Callable[[JaxOpCall], Any]


def dtype_of(name: str, replaced: Mapping[str, str]) -> jnp.dtype[Any]:
    """The JAX dtype of a name. `replaced` maps names to the dtypes that replace them."""
    name = replaced.get(name, name)
    return jnp.dtype(_OTHER_NAMES.get(name, name))


def call_of(
    op: Op,
    inputs: Sequence[A],
    *,
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[str],
    sizes: Mapping[str, int],
    replaced: Mapping[str, str],
) -> JaxOpCall:
    """The call of an op.

    `shapes` and `dtypes` are those of the outputs, `sizes` the values of symbols. `replaced` maps
    dtypes of the graph to the dtypes that replace them.
    """
    attrs = read_attrs(op.attrs, sizes, lambda name: dtype_of(name, replaced))
    return JaxOpCall(op, inputs, attrs, shapes, [dtype_of(name, replaced) for name in dtypes])
