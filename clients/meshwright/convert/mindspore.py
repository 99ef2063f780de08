"""MindSpore: a layout as device matrix and tensor map, or as `mindspore.parallel.Layout` says it.

A tensor map has one entry a dim: -1 where it is not split, else a position in the device matrix
counted from the right, or a tuple of such, the first one slowest. The same in names: every entry
of the device matrix has an alias, "None" stands for -1.
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
    """device_matrix, tensor_map and tensor_shape of MindSpore's tensor layouts.

    A place of one entry is that number, one of none is -1. padded_from: the tensor's own shape,
    where the one given here has zeros behind it.
    """

    device_matrix: tuple[int, ...]
    tensor_map: tuple[Place, ...]
    tensor_shape: tuple[int, ...]
    padded_from: tuple[int, ...] | None = None

    @field_validator("tensor_map", mode="after")
    @classmethod
    def _written_shortest(cls, value: tuple[Place, ...]) -> tuple[Place, ...]:
        return tuple(_place(_positions(place)) for place in value)

    @model_validator(mode="after")
    def _valid(self) -> MindSporeLayout:
        check_shapes(self.tensor_shape, self.padded_from, self.tensor_map)
        return self

    @property
    def positions(self) -> tuple[tuple[int, ...], ...]:
        """The entries of every dim, none where it is not split."""
        return tuple(_positions(place) for place in self.tensor_map)

    def aliases(self, grid: DeviceGrid) -> tuple[Alias, ...]:
        """The arguments with which a `mindspore.parallel.Layout` of the grid is called."""
        for name in grid.names:
            if name in (NOT_SPLIT, INTERLEAVED):
                raise ConversionError(f"an axis named {name!r} means something else to MindSpore")
        found: list[Alias] = []
        for axes in _axes(self, grid):
            names = tuple(str(axis) for axis in axes)
            found.append(NOT_SPLIT if not names else names[0] if len(names) == 1 else names)
        return tuple(found)

    @classmethod
    def from_aliases(
        cls, aliases: Sequence[Alias], shape: Sequence[int], grid: DeviceGrid
    ) -> MindSporeLayout:
        """What `Layout(device_matrix, alias_name)(*aliases)` is for a tensor of this shape."""
        if INTERLEAVED in grid.names:
            raise ConversionError(
                f"the alias {INTERLEAVED!r} splits a tensor inside each device; a layout of ours "
                "says what a device holds, not how it runs it"
            )
        axes = [
            tuple(Axis(name) for name in _names(alias) if name != NOT_SPLIT) for alias in aliases
        ]
        return cls(
            device_matrix=grid.sizes,
            tensor_map=tuple(_mapped(own, grid) for own in axes),
            tensor_shape=tuple(shape),
        )


def to_mindspore(layout: Layout, grid: DeviceGrid, *, name: str = "the tensor") -> MindSporeLayout:
    """A layout as device matrix and tensor map; ConversionError, naming the tensor, if none is."""
    dims = plain_dims(layout, grid, name=name, target="a tensor map")
    if layout.partial:
        raise ConversionError(
            f"{name}: layout {layout}: partial over {', '.join(sorted(layout.partial))}: "
            "MindSpore's layouts know no partial values; its operators reduce them at once"
        )
    stored = tuple(dim.stored for dim in dims)
    return MindSporeLayout(
        device_matrix=grid.sizes,
        tensor_map=tuple(_mapped(dim.axes, grid) for dim in dims),
        tensor_shape=stored,
        padded_from=None if stored == layout.shape else layout.shape,
    )


def from_mindspore(given: MindSporeLayout, grid: DeviceGrid, *, name: str = "the tensor") -> Layout:
    """The layout that a tensor map is; the grid names the entries of its device matrix."""
    if given.device_matrix != grid.sizes:
        raise ConversionError(
            f"{name}: the device matrix {list(given.device_matrix)} is not the grid's "
            f"{list(grid.sizes)}"
        )
    dims = dims_of(
        given.padded_from or given.tensor_shape,
        given.tensor_shape,
        _axes(given, grid),
        grid,
        name=name,
    )
    return Layout(dims=dims, padded=given.padded_from is not None)


def layout_arguments(grid: DeviceGrid) -> dict[str, Any]:
    """The arguments of `mindspore.parallel.Layout`: device_matrix, alias_name, rank_list."""
    return {
        "device_matrix": grid.sizes,
        "alias_name": tuple(str(name) for name in grid.names),
        "rank_list": list(grid.ranks),
    }


def _axes(given: MindSporeLayout, grid: DeviceGrid) -> list[tuple[Axis, ...]]:
    count = len(grid.names)
    for position in (p for place in given.positions for p in place):
        if position >= count:
            raise ConversionError(
                f"the tensor map {given.tensor_map} names entry {position} from the right of a "
                f"device matrix of {count}"
            )
    return [tuple(grid.names[count - 1 - p] for p in place) for place in given.positions]


def _mapped(axes: Sequence[Axis], grid: DeviceGrid) -> Place:
    grid.size(axes)
    return _place(tuple(len(grid.names) - 1 - grid.names.index(axis) for axis in axes))


def _place(positions: tuple[int, ...]) -> Place:
    return -1 if not positions else positions[0] if len(positions) == 1 else positions


def _positions(place: Place) -> tuple[int, ...]:
    each = place if isinstance(place, tuple) else (place,)
    if any(position < -1 for position in each):
        raise ConversionError(f"a tensor map counts from 0, or says -1, got {place}")
    return tuple(position for position in each if position >= 0)


def _names(alias: Alias) -> tuple[str, ...]:
    return alias if isinstance(alias, tuple) else (alias,)
