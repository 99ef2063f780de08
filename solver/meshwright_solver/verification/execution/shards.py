"""Shards: what each device holds of a tensor in a layout.

All arrays here are in *parts form*: one array dim for every sub-dim of the layout, so that a shard
is a slice. A dim that is a sum of segments is put into parts form segment by segment: the common
factor first, what is left of every segment behind it in the last sub-dim.

A shard of a padded layout has the longest chunk's shape on every device: its region first, zeros
behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Layout, LayoutError, Mesh
from meshwright.schema.layout import Reduction
from meshwright.schema.regions import Region, region, stored_shape

Array = NDArray[Any]
Shards = list[Array]


def to_parts(array: Array, layout: Layout) -> Array:
    """A whole tensor in parts form."""
    for d, dim in enumerate(layout.dims):
        if dim.segments:
            common = prod(part.size for part in dim.parts[:-1])
            ends = np.cumsum(dim.segments)[:-1]
            pieces = [
                piece.reshape(*piece.shape[:d], common, -1, *piece.shape[d + 1 :])
                for piece in np.split(array, ends, axis=d)
            ]
            joined = np.concatenate(pieces, axis=d + 1)
            array = joined.reshape(*joined.shape[:d], -1, *joined.shape[d + 2 :])
    return array.reshape(parts_shape(layout))


def from_parts(array: Array, layout: Layout) -> Array:
    """A whole tensor from parts form."""
    array = array.reshape(layout.shape)
    for d, dim in enumerate(layout.dims):
        if dim.segments:
            common = prod(part.size for part in dim.parts[:-1])
            joined = array.reshape(*array.shape[:d], common, -1, *array.shape[d + 1 :])
            ends = np.cumsum([length // common for length in dim.segments])[:-1]
            pieces = [
                piece.reshape(*array.shape[:d], -1, *array.shape[d + 1 :])
                for piece in np.split(joined, ends, axis=d + 1)
            ]
            array = np.concatenate(pieces, axis=d)
    return array


def parts_shape(layout: Layout) -> tuple[int, ...]:
    """The shape in parts form."""
    return tuple(part.size for dim in layout.dims for part in dim.parts)


def window(inside: Region) -> tuple[slice, ...]:
    """A region as an index."""
    return tuple(slice(start, stop) for start, stop in inside)


def stored(parts: Array, layout: Layout, mesh: Mesh, rank: int) -> Array:
    """What a device holds of a whole tensor in parts form."""
    own = parts[window(region(layout, mesh, rank))]
    if not layout.padded:
        return own.copy()
    filled = np.zeros(stored_shape(layout, mesh), dtype=parts.dtype)
    filled[tuple(slice(0, length) for length in own.shape)] = own
    return filled


def put(whole: Array, own: Array, inside: Region) -> None:
    """Write a shard into a whole tensor in parts form, without its padding."""
    whole[window(inside)] = own[tuple(slice(0, stop - start) for start, stop in inside)]


def shard(whole: Array, layout: Layout, mesh: Mesh) -> Shards:
    """Every device's part of a whole tensor; a partial one lies on the first device of its axes."""
    parts = to_parts(whole, layout)
    how = reduction_of(layout)
    shards = []
    for rank in range(mesh.device_count):
        own = stored(parts, layout, mesh, rank)
        at = mesh.coordinates(rank)
        if any(at[axis] for axis in layout.partial):
            own = np.full_like(own, neutral(how, own.dtype))
        shards.append(own)
    return shards


def unshard(shards: Sequence[Array], layout: Layout, mesh: Mesh) -> Array:
    """The whole tensor; raises DisagreementError where devices that hold the same part differ."""
    how = reduction_of(layout)
    whole = np.full(parts_shape(layout), neutral(how, shards[0].dtype))
    written: dict[tuple[Region, tuple[int, ...]], int] = {}
    for rank, own in enumerate(shards):
        inside = region(layout, mesh, rank)
        at = mesh.coordinates(rank)
        key = (inside, tuple(at[axis] for axis in layout.partial))
        if key in written:
            other = shards[written[key]]
            if not close(own, other):
                raise DisagreementError(written[key], rank)
            continue
        written[key] = rank
        before = whole[window(inside)].copy()
        put(whole, own, inside)
        whole[window(inside)] = reduced([before, whole[window(inside)]], how)
    return from_parts(whole, layout)


def reduction_of(layout: Layout) -> Reduction:
    """How partial parts come together; LayoutError for both at once: the order would matter."""
    found = set(layout.partial.values())
    if len(found) > 1:
        raise LayoutError(f"{layout} is partial by sum and by maximum: which comes first?")
    return found.pop() if found else "sum"


def neutral(how: Reduction, dtype: np.dtype[Any]) -> Any:
    """What a device holds that has nothing to add, in the tensor's dtype."""
    least = -np.inf if dtype.kind == "f" else 0 if dtype.kind == "b" else np.iinfo(dtype).min
    return dtype.type(0 if how == "sum" else least)


def reduced(parts: Sequence[Array], how: Reduction) -> Array:
    """Partial parts as one."""
    add = np.add if how == "sum" else np.maximum
    return np.asarray(add.reduce(parts))


class DisagreementError(Exception):
    """Two devices should hold equal copies and do not."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"devices {first} and {second} hold different copies of the same part")


def close(a: Array, b: Array) -> bool:
    """Equal but for rounding: sums in another order."""
    finite = np.abs(a[np.isfinite(a)]) if a.dtype.kind == "f" else np.zeros(0)
    scale = max(1.0, float(finite.max(initial=0.0)))
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-9 * scale, equal_nan=False))
