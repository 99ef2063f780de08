"""JAX: a layout as a PartitionSpec on a Mesh.

An array dim is cut over a tuple of mesh axes, the first one slowest, into equal parts; axes that
no dim names hold copies, and those in `unreduced` hold parts of a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import model_validator

from meshwright.convert.grid import DeviceGrid
from meshwright.convert.plain import check_shapes, dims_of, plain_dims
from meshwright.schema import Axis, ConversionError, Layout, Model

if TYPE_CHECKING:
    import jax


class JaxLayout(Model):
    """A PartitionSpec as data, with the shape of the array that it is for.

    partitions: the axes of every array dim. unreduced: in the order of the grid.
    padded_from: the tensor's own shape, where the array has zeros behind it.
    """

    shape: tuple[int, ...]
    partitions: tuple[tuple[Axis, ...], ...]
    unreduced: tuple[Axis, ...] = ()
    padded_from: tuple[int, ...] | None = None

    @model_validator(mode="after")
    def _valid(self) -> JaxLayout:
        check_shapes(self.shape, self.padded_from, self.partitions)
        return self

    def to_jax(self) -> jax.sharding.PartitionSpec:
        """jax's PartitionSpec; ConversionError where this jax knows no unreduced axes."""
        import jax

        parts: list[Any] = [
            None if not axes else axes[0] if len(axes) == 1 else axes for axes in self.partitions
        ]
        spec: Callable[..., jax.sharding.PartitionSpec] = jax.sharding.PartitionSpec
        if not self.unreduced:
            return spec(*parts)
        try:
            return spec(*parts, unreduced=set(self.unreduced))
        except TypeError:
            raise ConversionError(
                f"partial sums over {', '.join(self.unreduced)}: the PartitionSpec of jax "
                f"{jax.__version__} has no unreduced axes; a newer one would do"
            ) from None

    @classmethod
    def from_jax(cls, spec: jax.sharding.PartitionSpec, shape: Sequence[int]) -> JaxLayout:
        """A PartitionSpec for an array of this shape as data.

        Raises ConversionError where it says more than how the value lies: unconstrained dims, and
        axes over which the gradient is to be reduced.
        """
        entries: tuple[Any, ...] = tuple(getattr(spec, "partitions", spec))
        if len(entries) > len(shape):
            raise ConversionError(f"{spec} has more dims than an array of {list(shape)}")
        if getattr(spec, "reduced", None):
            raise ConversionError(f"{spec}: reduced axes say how a gradient lies, not the value")
        partitions = []
        for entry in (*entries, *[None] * (len(shape) - len(entries))):
            axes = () if entry is None else entry if isinstance(entry, tuple) else (entry,)
            if not all(isinstance(axis, str) for axis in axes):
                raise ConversionError(f"{spec}: a dim that is {entry!r} says no layout")
            partitions.append(tuple(Axis(axis) for axis in axes))
        return cls(
            shape=tuple(shape),
            partitions=tuple(partitions),
            unreduced=tuple(sorted(getattr(spec, "unreduced", None) or ())),
        )


def to_jax(layout: Layout, grid: DeviceGrid, *, name: str = "the tensor") -> JaxLayout:
    """A layout as a PartitionSpec; ConversionError, naming the tensor, where there is none."""
    dims = plain_dims(layout, grid, name=name, target="a PartitionSpec")
    for axis, how in layout.partial.items():
        if how != "sum":
            raise ConversionError(
                f"{name}: layout {layout}: partial over {axis!r} by its {how}: a PartitionSpec "
                "knows sums only; reduce it before"
            )
    stored = tuple(dim.stored for dim in dims)
    return JaxLayout(
        shape=stored,
        partitions=tuple(dim.axes for dim in dims),
        unreduced=tuple(sorted(layout.partial)),
        padded_from=None if stored == layout.shape else layout.shape,
    )


def from_jax(spec: JaxLayout, grid: DeviceGrid, *, name: str = "the tensor") -> Layout:
    """The layout that a PartitionSpec is; ConversionError where axes do not divide a dim."""
    grid.size(spec.unreduced)
    dims = dims_of(spec.padded_from or spec.shape, spec.shape, spec.partitions, grid, name=name)
    return Layout(
        dims=dims,
        partial=dict.fromkeys(spec.unreduced, "sum"),
        padded=spec.padded_from is not None,
    )
