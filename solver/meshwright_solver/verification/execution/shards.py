"""Shards: the part of a tensor in a layout that each device holds.

All arrays here are in *parts form*: one array dim for every sub-dim of the layout, so that a shard
is a slice. A dim that is a sum of segments is put into parts form segment by segment. The common
factor comes first; the remainder of every segment stands behind it in the last sub-dim.

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


def shard_of_device(parts: Array, layout: Layout, mesh: Mesh, rank: int) -> Array:
    """A device's shard of a whole tensor in parts form."""
    part = parts[window(region(layout, mesh, rank))]
    if not layout.padded:
        return part.copy()
    filled = np.zeros(stored_shape(layout, mesh), dtype=parts.dtype)
    filled[tuple(slice(0, length) for length in part.shape)] = part
    return filled


def put(whole: Array, part: Array, inside: Region) -> None:
    """Write a shard into a whole tensor in parts form, without its padding."""
    whole[window(inside)] = part[tuple(slice(0, stop - start) for start, stop in inside)]


def shard(whole: Array, layout: Layout, mesh: Mesh) -> Shards:
    """Every device's shard of a whole tensor; the first device of its axes holds a partial one."""
    parts = to_parts(whole, layout)
    how = reduction_of(layout)
    shards = []
    for rank in range(mesh.device_count):
        part = shard_of_device(parts, layout, mesh, rank)
        at = mesh.coordinates(rank)
        if any(at[axis] for axis in layout.partial):
            part = np.full_like(part, neutral(how, part.dtype))
        shards.append(part)
    return shards


def unshard(shards: Sequence[Array], layout: Layout, mesh: Mesh) -> Array:
    """The whole tensor; raises DisagreementError where replicas differ."""
    how = reduction_of(layout)
    whole = np.full(parts_shape(layout), neutral(how, shards[0].dtype))
    written: dict[tuple[Region, tuple[int, ...]], int] = {}
    for rank, part in enumerate(shards):
        inside = region(layout, mesh, rank)
        at = mesh.coordinates(rank)
        key = (inside, tuple(at[axis] for axis in layout.partial))
        if key in written:
            other = shards[written[key]]
            if not close(part, other):
                raise DisagreementError(written[key], rank)
            continue
        written[key] = rank
        before = whole[window(inside)].copy()
        put(whole, part, inside)
        whole[window(inside)] = reduce_parts([before, whole[window(inside)]], how)
    return from_parts(whole, layout)


def reduction_of(layout: Layout) -> Reduction:
    """The reduction of a partial layout; LayoutError for both at once, whose order matters."""
    reductions = set(layout.partial.values())
    if len(reductions) > 1:
        raise LayoutError(f"{layout} is partial by sum and by maximum, and their order matters")
    return reductions.pop() if reductions else "sum"


def neutral(how: Reduction, dtype: np.dtype[Any]) -> Any:
    """The neutral element of a reduction, in the tensor's dtype."""
    least = -np.inf if dtype.kind == "f" else 0 if dtype.kind == "b" else np.iinfo(dtype).min
    return dtype.type(0 if how == "sum" else least)


def reduce_parts(parts: Sequence[Array], how: Reduction) -> Array:
    """The reduction of partial parts."""
    add = np.add if how == "sum" else np.maximum
    return np.asarray(add.reduce(parts))


class DisagreementError(Exception):
    """Two devices hold different copies of the same part."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"devices {first} and {second} hold different copies of the same part")


def close(a: Array, b: Array) -> bool:
    """Whether two arrays are equal but for rounding."""
    finite = np.abs(a[np.isfinite(a)]) if a.dtype.kind == "f" else np.zeros(0)
    scale = max(1.0, float(finite.max(initial=0.0)))
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-9 * scale, equal_nan=False))
