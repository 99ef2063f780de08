"""Regions: the part of a tensor on a device, as a range of every sub-dim of the layout."""

from __future__ import annotations

from meshwright.schema.layout import Layout, SubDim
from meshwright.schema.mesh import Mesh

Region = tuple[tuple[int, int], ...]


def region(layout: Layout, mesh: Mesh, rank: int) -> Region:
    """The range (start, stop) of every sub-dim that a device has, in elements."""
    return tuple(part.chunk(index, ways) for part, index, ways in chunks_of(layout, mesh, rank))


def chunks_of(layout: Layout, mesh: Mesh, rank: int) -> list[tuple[SubDim, int, int]]:
    """Every sub-dim with the index of the device's chunk and the number of chunks."""
    at = mesh.coordinates(rank)
    sizes = {axis.name: axis.size for axis in mesh.axes}
    chunks = []
    for dim in layout.dims:
        for part in dim.parts:
            index, ways = 0, 1
            for axis in part.axes:
                index, ways = index * sizes[axis] + at[axis], ways * sizes[axis]
            chunks.append((part, index, ways))
    return chunks


def stored_shape(layout: Layout, mesh: Mesh) -> tuple[int, ...]:
    """The shape of every shard of a padded layout: the longest chunk of each sub-dim."""
    return tuple(part.longest(mesh.size(part.axes)) for dim in layout.dims for part in dim.parts)
