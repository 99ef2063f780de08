"""JAX layouts: a PartitionSpec on a Mesh.

A PartitionSpec cuts an array dim over a tuple of mesh axes, the slowest first, into equal parts.
The array is replicated over axes without a dim, and a partial sum over those in `unreduced`.
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
    """A PartitionSpec as data, with the shape of its array.

    partitions: the axes of every array dim. unreduced: axes in alphabetical order.
    padded_from: the tensor's shape without padding, where the array has zeros at the end.
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
        """jax's PartitionSpec; ConversionError where this version has no unreduced axes."""
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
                f"{jax.__version__} has no unreduced axes. Install a newer jax"
            ) from None

    @classmethod
    def from_jax(cls, spec: jax.sharding.PartitionSpec, shape: Sequence[int]) -> JaxLayout:
        """The data of a PartitionSpec for an array of this shape.

        Raises ConversionError for unconstrained dims and for reduced axes, which describe the
        gradient.
        """
        entries: tuple[Any, ...] = tuple(getattr(spec, "partitions", spec))
        if len(entries) > len(shape):
            raise ConversionError(f"{spec} has more dims than an array of {list(shape)}")
        if getattr(spec, "reduced", None):
            raise ConversionError(f"{spec}: reduced axes describe the gradient, not the value")
        partitions = []
        for entry in (*entries, *[None] * (len(shape) - len(entries))):
            axes = () if entry is None else entry if isinstance(entry, tuple) else (entry,)
            if not all(isinstance(axis, str) for axis in axes):
                raise ConversionError(f"{spec}: the entry {entry!r} of a dim is no layout")
            partitions.append(tuple(Axis(axis) for axis in axes))
        return cls(
            shape=tuple(shape),
            partitions=tuple(partitions),
            unreduced=tuple(sorted(getattr(spec, "unreduced", None) or ())),
        )


def to_jax(layout: Layout, grid: DeviceGrid, *, name: str = "the tensor") -> JaxLayout:
    """The PartitionSpec of a layout.

    Raises ConversionError with the tensor's name where no PartitionSpec expresses the layout.
    """
    dims = plain_dims(layout, grid, name=name, target="a PartitionSpec")
    for axis, how in layout.partial.items():
        if how != "sum":
            raise ConversionError(
                f"{name}: layout {layout}: partial over {axis!r} by its {how}: a PartitionSpec "
                "has partial sums only. Reduce it before"
            )
    shape = tuple(dim.stored for dim in dims)
    return JaxLayout(
        shape=shape,
        partitions=tuple(dim.axes for dim in dims),
        unreduced=tuple(sorted(layout.partial)),
        padded_from=None if shape == layout.shape else layout.shape,
    )


def from_jax(spec: JaxLayout, grid: DeviceGrid, *, name: str = "the tensor") -> Layout:
    """The layout of a PartitionSpec; ConversionError where axes do not divide a dim."""
    grid.size(spec.unreduced)
    dims = dims_of(spec.padded_from or spec.shape, spec.shape, spec.partitions, grid, name=name)
    return Layout(
        dims=dims,
        partial=dict.fromkeys(spec.unreduced, "sum"),
        padded=spec.padded_from is not None,
    )
