"""What a device holds of a tensor: a stretch of every sub-dim of its layout."""

from __future__ import annotations

from meshwright.schema.layout import Layout, SubDim
from meshwright.schema.mesh import Mesh

Region = tuple[tuple[int, int], ...]


def region(layout: Layout, mesh: Mesh, rank: int) -> Region:
    """The stretch of every sub-dim that a device holds."""
    return tuple(part.chunk(index, ways) for part, index, ways in chunks_of(layout, mesh, rank))


def chunks_of(layout: Layout, mesh: Mesh, rank: int) -> list[tuple[SubDim, int, int]]:
    """Every sub-dim, which of its chunks a device holds, and of how many."""
    at = mesh.coordinates(rank)
    sizes = {axis.name: axis.size for axis in mesh.axes}
    found = []
    for dim in layout.dims:
        for part in dim.parts:
            index, ways = 0, 1
            for axis in part.axes:
                index, ways = index * sizes[axis] + at[axis], ways * sizes[axis]
            found.append((part, index, ways))
    return found


def stored_shape(layout: Layout, mesh: Mesh) -> tuple[int, ...]:
    """The longest chunk of every sub-dim: the shape of every shard of a padded layout."""
    return tuple(part.longest(mesh.size(part.axes)) for dim in layout.dims for part in dim.parts)
