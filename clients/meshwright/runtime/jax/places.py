"""Positions of parts in local shards, for one program on all devices.

Regions are given for every rank. A part that is read from one array and written to another has the
same shape on all ranks, and its start may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from meshwright.runtime.local_slices import overlap, shape_of
from meshwright.schema import Axis, PlanError
from meshwright.schema.regions import Region

A = jax.Array
Regions = Sequence[Region]  # of every rank
Starts = NDArray[np.int32]  # (ranks, dims)
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Common:
    """The intersection of the regions of two arrays: its start in each of them, and its shape."""

    first: Starts
    second: Starts
    shape: Shape


def common(first: Regions, second: Regions, of: str) -> Common:
    """The intersection of two arrays' regions; `of` is the tensor.

    Raises PlanError if the shape is not the same on all ranks.
    """
    regions = [overlap(a, b) for a, b in zip(first, second, strict=True)]
    shapes = {None if region is None else shape_of(region) for region in regions}
    (shape, *others) = shapes
    if others or shape is None:
        raise PlanError(
            f"{of!r}: ranks move parts of the shapes {[s and list(s) for s in shapes]}, but one "
            "program for all ranks needs one shape. Plan another layout for this tensor"
        )
    return Common(_starts(regions, first), _starts(regions, second), shape)


def in_order(starts: Sequence[Starts], shape: Shape, whole: tuple[int, ...]) -> int | None:
    """The dim along which the pieces of the members concatenate to the whole, in their order.

    None if there is no such dim.
    """
    longer = [d for d, (size, part) in enumerate(zip(whole, shape, strict=True)) if size != part]
    if len(longer) != 1 or whole[longer[0]] != shape[longer[0]] * len(starts):
        return None
    steps = np.array([size if d == longer[0] else 0 for d, size in enumerate(shape)])
    is_ordered = all((start == place * steps).all() for place, start in enumerate(starts))
    return longer[0] if is_ordered else None


def taken(array: A, starts: Starts, shape: Shape, axes: Sequence[Axis]) -> A:
    """A part of an array. `axes` are all axes of the mesh, which determine the device's rank."""
    at = _start(starts, axes)
    if isinstance(at, np.ndarray):
        return array[tuple(slice(s, s + size) for s, size in zip(at, shape, strict=True))]
    return lax.dynamic_slice(array, list(at), shape)


def put(array: A, part: A, starts: Starts, axes: Sequence[Axis]) -> A:
    """An array with a part of it replaced."""
    return lax.dynamic_update_slice(array, part, list(_start(starts, axes)))


def _start(starts: Starts, axes: Sequence[Axis]) -> Starts | A:
    """This device's row of starts; a constant if all rows are equal."""
    if (starts == starts[0]).all():
        return starts[0]
    row: A = jnp.asarray(starts)[lax.axis_index(tuple(axes))]
    return row


def _starts(regions: Sequence[Region | None], outer: Regions) -> Starts:
    return np.array(
        [
            [start - first for (start, _), (first, _) in zip(region or (), whole, strict=True)]
            for region, whole in zip(regions, outer, strict=True)
        ],
        dtype=np.int32,
    ).reshape(len(outer), -1)
