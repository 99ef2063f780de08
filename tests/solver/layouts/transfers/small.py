"""Meshes and layouts by a few letters, for transfers that are worked by hand."""

from __future__ import annotations

import numpy as np

from meshwright.schema import Axis, Dim, Layout, Mesh, MeshAxis, SubDim
from meshwright.schema.layout import Reduction
from meshwright.transfers.holding import PlacedMesh
from meshwright_solver.layouts.transfers.transfer import Item


def site(first: int = 0, **sizes: int) -> PlacedMesh:
    """Axes by size, on consecutive devices."""
    mesh = Mesh(
        axes=tuple(MeshAxis(name=Axis(n), size=size, level="l0") for n, size in sizes.items())
    )
    return PlacedMesh(mesh, np.arange(first, first + mesh.device_count))


def layout(*dims: tuple[int, str], partial: dict[str, Reduction] | None = None) -> Layout:
    """Dims of one part: a size and the axes on it, by one letter each."""
    return Layout(
        dims=tuple(
            Dim(parts=(SubDim(size=size, axes=tuple(map(Axis, axes))),)) for size, axes in dims
        ),
        partial={Axis(axis): how for axis, how in (partial or {}).items()},
    )


def item(
    source: Layout, here: PlacedMesh, target: Layout, there: PlacedMesh, name: str = "t"
) -> Item:
    """A tensor of one-byte elements."""
    return Item(name, "value", 1, source, here, target, there)
