"""MindSpore layouts: a device matrix and a tensor map, or a `mindspore.parallel.Layout`.

A tensor map has one entry per dim. -1 means not split; other entries are positions in the device
matrix counted from the right, or tuples of positions, the slowest first. With names, every entry of
the device matrix has an alias, and "None" means -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import field_validator, model_validator

from meshwright.convert.grid import DeviceGrid
from meshwright.convert.plain import check_shapes, dims_of, plain_dims
from meshwright.schema import Axis, ConversionError, Layout, Model

NOT_SPLIT = "None"
INTERLEAVED = "interleaved_parallel"  # an alias that splits inside a device
Alias = str | tuple[str, ...]
Place = int | tuple[int, ...]


class MindSporeLayout(Model):
    """A tensor layout of MindSpore: device_matrix, tensor_map and tensor_shape.

    A map entry of one position is that number; one without positions is -1. `padded_from` is the
    tensor's shape without padding, where `tensor_shape` includes zeros at the end.
    """

    device_matrix: tuple[int, ...]
    tensor_map: tuple[Place, ...]
    tensor_shape: tuple[int, ...]
    padded_from: tuple[int, ...] | None = None

    @field_validator("tensor_map", mode="after")
    @classmethod
    def _shortest_form(cls, value: tuple[Place, ...]) -> tuple[Place, ...]:
        return tuple(_place(_positions(place)) for place in value)

    @model_validator(mode="after")
    def _valid(self) -> MindSporeLayout:
        check_shapes(self.tensor_shape, self.padded_from, self.tensor_map)
        return self

    @property
    def positions(self) -> tuple[tuple[int, ...], ...]:
        """The device matrix positions of every dim; empty for a dim that is not split."""
        return tuple(_positions(place) for place in self.tensor_map)

    def aliases(self, grid: DeviceGrid) -> tuple[Alias, ...]:
        """The arguments for a call of the grid's `mindspore.parallel.Layout`, one per dim."""
        for name in grid.names:
            if name in (NOT_SPLIT, INTERLEAVED):
                raise ConversionError(f"an axis named {name!r} means something else to MindSpore")
        aliases: list[Alias] = []
        for axes in _axes(self, grid):
            names = tuple(str(axis) for axis in axes)
            aliases.append(NOT_SPLIT if not names else names[0] if len(names) == 1 else names)
        return tuple(aliases)

    @classmethod
    def from_aliases(
        cls, aliases: Sequence[Alias], shape: Sequence[int], grid: DeviceGrid
    ) -> MindSporeLayout:
        """The layout `Layout(device_matrix, alias_name)(*aliases)` for a tensor of this shape."""
        if INTERLEAVED in grid.names:
            raise ConversionError(
                f"the alias {INTERLEAVED!r} splits a tensor inside each device, which a layout "
                "cannot express. Remove the alias"
            )
        axes = [
            tuple(Axis(name) for name in _names(alias) if name != NOT_SPLIT) for alias in aliases
        ]
        return cls(
            device_matrix=grid.sizes,
            tensor_map=tuple(_map_entry(dim_axes, grid) for dim_axes in axes),
            tensor_shape=tuple(shape),
        )


def to_mindspore(layout: Layout, grid: DeviceGrid, *, name: str = "the tensor") -> MindSporeLayout:
    """The device matrix and tensor map of a layout.

    Raises ConversionError with the tensor's name where no tensor map expresses the layout.
    """
    dims = plain_dims(layout, grid, name=name, target="a tensor map")
    if layout.partial:
        raise ConversionError(
            f"{name}: layout {layout}: partial over {', '.join(sorted(layout.partial))}: "
            "MindSpore's layouts have no partial values; its operators reduce them immediately"
        )
    shape = tuple(dim.stored for dim in dims)
    return MindSporeLayout(
        device_matrix=grid.sizes,
        tensor_map=tuple(_map_entry(dim.axes, grid) for dim in dims),
        tensor_shape=shape,
        padded_from=None if shape == layout.shape else layout.shape,
    )


def from_mindspore(
    tensor: MindSporeLayout, grid: DeviceGrid, *, name: str = "the tensor"
) -> Layout:
    """The layout of a tensor map; the grid names the entries of its device matrix."""
    if tensor.device_matrix != grid.sizes:
        raise ConversionError(
            f"{name}: the device matrix {list(tensor.device_matrix)} is not the grid's "
            f"{list(grid.sizes)}"
        )
    dims = dims_of(
        tensor.padded_from or tensor.tensor_shape,
        tensor.tensor_shape,
        _axes(tensor, grid),
        grid,
        name=name,
    )
    return Layout(dims=dims, padded=tensor.padded_from is not None)


def layout_arguments(grid: DeviceGrid) -> dict[str, Any]:
    """The arguments of `mindspore.parallel.Layout`: device_matrix, alias_name, rank_list."""
    return {
        "device_matrix": grid.sizes,
        "alias_name": tuple(str(name) for name in grid.names),
        "rank_list": list(grid.ranks),
    }


def _axes(tensor: MindSporeLayout, grid: DeviceGrid) -> list[tuple[Axis, ...]]:
    count = len(grid.names)
    for position in (p for place in tensor.positions for p in place):
        if position >= count:
            raise ConversionError(
                f"the tensor map {tensor.tensor_map} names entry {position} from the right of a "
                f"device matrix of {count}"
            )
    return [tuple(grid.names[count - 1 - p] for p in place) for place in tensor.positions]


def _map_entry(axes: Sequence[Axis], grid: DeviceGrid) -> Place:
    grid.size(axes)
    return _place(tuple(len(grid.names) - 1 - grid.names.index(axis) for axis in axes))


def _place(positions: tuple[int, ...]) -> Place:
    return -1 if not positions else positions[0] if len(positions) == 1 else positions


def _positions(place: Place) -> tuple[int, ...]:
    each = place if isinstance(place, tuple) else (place,)
    if any(position < -1 for position in each):
        raise ConversionError(
            f"an entry of a tensor map is -1 or a position from 0 on, got {place}"
        )
    return tuple(position for position in each if position >= 0)


def _names(alias: Alias) -> tuple[str, ...]:
    return alias if isinstance(alias, tuple) else (alias,)
