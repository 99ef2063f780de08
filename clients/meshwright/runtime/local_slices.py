"""Local shards of a tensor, in the tensor's dims and in *parts form*, with a dim for every sub-dim.

The parts form of a dim of several segments has the common factor of all segments first, and the
rest of every segment in the last sub-dim. If the last sub-dim is sharded, as optimizer states may
be, a rank's shard stays in parts form, because it does not consist of segments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from typing import Any, TypeVar

from meshwright.schema import Layout, Mesh, SubDim
from meshwright.schema.regions import Region, stored_shape

A = TypeVar("A", bound=Any)  # an array of any framework: it has reshape, shape and slices
Join = Callable[[list[A], int], A]  # concatenation along a dim


def to_parts(local: A, layout: Layout, mesh: Mesh, join: Join[A]) -> A:
    """A local shard in parts form."""
    for d, dim in enumerate(layout.dims):
        if dim.segments and not dim.parts[-1].axes:
            common, ways = _common(dim.parts, mesh)
            lengths = [length // ways for length in dim.segments]
            pieces = [
                piece.reshape(*piece.shape[:d], common, -1, *piece.shape[d + 1 :])
                for piece in _split(local, lengths, d)
            ]
            joined = join(pieces, d + 1)
            local = joined.reshape(*joined.shape[:d], -1, *joined.shape[d + 2 :])
    parts: A = local.reshape(stored_shape(layout, mesh))
    return parts


def from_parts(parts: A, layout: Layout, mesh: Mesh, join: Join[A]) -> A:
    """A local shard from its parts form."""
    local: A = parts.reshape(layout.local_shape(mesh))
    for d, dim in enumerate(layout.dims):
        if dim.segments and not dim.parts[-1].axes:
            common, ways = _common(dim.parts, mesh)
            joined = local.reshape(*local.shape[:d], common, -1, *local.shape[d + 1 :])
            lengths = [length // (ways * common) for length in dim.segments]
            pieces = [
                piece.reshape(*local.shape[:d], -1, *local.shape[d + 1 :])
                for piece in _split(joined, lengths, d + 1)
            ]
            local = join(pieces, d)
    return local


def within(inside: Region, outer: Region) -> tuple[slice, ...]:
    """The index of a region in the shard of another region."""
    return tuple(
        slice(start - first, stop - first)
        for (start, stop), (first, _) in zip(inside, outer, strict=True)
    )


def overlap(a: Region, b: Region) -> Region | None:
    """The intersection of two regions; None if it is empty."""
    ranges = tuple(
        (max(start, first), min(stop, last))
        for (start, stop), (first, last) in zip(a, b, strict=True)
    )
    return None if any(start >= stop for start, stop in ranges) else ranges


def shape_of(inside: Region) -> tuple[int, ...]:
    """The shape of a region."""
    return tuple(stop - start for start, stop in inside)


def _split(whole: A, lengths: Sequence[int], dim: int) -> list[A]:
    ends = list(accumulate(lengths))
    before: tuple[slice, ...] = (slice(None),) * dim
    cuts = [(*before, slice(end - size, end)) for size, end in zip(lengths, ends, strict=True)]
    return [whole[cut] for cut in cuts]


def _common(parts: Sequence[SubDim], mesh: Mesh) -> tuple[int, int]:
    """The local size of the common factor of all segments, and its number of shards."""
    splits = [(p.size, mesh.size(p.axes)) for p in parts[:-1]]
    ways = prod(w for _, w in splits)
    return prod(size for size, _ in splits) // ways, ways
