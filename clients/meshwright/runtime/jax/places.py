"""Where parts lie in what devices hold, for a program that all devices share.

Regions are given for every rank. What a rank takes of one array and puts into another has one shape
on all of them; where it starts may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from meshwright.runtime.parts import overlap, shape_of
from meshwright.schema import Axis, PlanError
from meshwright.schema.regions import Region

A = jax.Array
Regions = Sequence[Region]  # of every rank
Starts = NDArray[np.int32]  # [ranks, dims]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Common:
    """What the regions of two arrays have in common: where it starts in each, and its shape."""

    first: Starts
    second: Starts
    shape: Shape


def common(first: Regions, second: Regions, of: str) -> Common:
    """PlanError, naming the tensor, where the shape is not the same for all ranks."""
    found = [overlap(a, b) for a, b in zip(first, second, strict=True)]
    shapes = {None if own is None else shape_of(own) for own in found}
    (shape, *others) = shapes
    if others or shape is None:
        raise PlanError(
            f"{of!r}: ranks move parts of the shapes {[s and list(s) for s in shapes]}: one "
            "program for all has one; plan another layout for this tensor"
        )
    return Common(_starts(found, first), _starts(found, second), shape)


def in_order(starts: Sequence[Starts], shape: Shape, whole: tuple[int, ...]) -> int | None:
    """The dim along which pieces of a shape, one for each member of a group, make up the whole in
    the order of the members; None where they do not."""
    longer = [d for d, (size, own) in enumerate(zip(whole, shape, strict=True)) if size != own]
    if len(longer) != 1 or whole[longer[0]] != shape[longer[0]] * len(starts):
        return None
    steps = np.array([size if d == longer[0] else 0 for d, size in enumerate(shape)])
    are = all((own == place * steps).all() for place, own in enumerate(starts))
    return longer[0] if are else None


def taken(array: A, starts: Starts, shape: Shape, axes: Sequence[Axis]) -> A:
    """A part of an array; axes: of the whole mesh, which say what rank this device is."""
    at = _own(starts, axes)
    if isinstance(at, np.ndarray):
        return array[tuple(slice(s, s + size) for s, size in zip(at, shape, strict=True))]
    return lax.dynamic_slice(array, list(at), shape)


def put(array: A, part: A, starts: Starts, axes: Sequence[Axis]) -> A:
    """An array with a part of it replaced."""
    return lax.dynamic_update_slice(array, part, list(_own(starts, axes)))


def _own(starts: Starts, axes: Sequence[Axis]) -> Starts | A:
    """This device's row; numbers where all rows are equal."""
    if (starts == starts[0]).all():
        return starts[0]
    own: A = jnp.asarray(starts)[lax.axis_index(tuple(axes))]
    return own


def _starts(found: Sequence[Region | None], outer: Regions) -> Starts:
    return np.array(
        [
            [start - first for (start, _), (first, _) in zip(own or (), whole, strict=True)]
            for own, whole in zip(found, outer, strict=True)
        ],
        dtype=np.int32,
    ).reshape(len(outer), -1)
