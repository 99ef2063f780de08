"""Placed tensors: the chunk of every dim of a tensor on every device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from meshwright.common.arrays import IntArray
from meshwright.schema import Axis, Layout, LayoutError, Mesh
from meshwright.transfers.cuts import cut_dim


@dataclass(frozen=True, eq=False)
class PlacedMesh:
    """A mesh on devices of a cluster: `devices[rank]` is the number of the device.

    The constructor raises LayoutError if the devices are not distinct or not as many as the ranks.
    """

    mesh: Mesh
    devices: IntArray

    def __post_init__(self) -> None:
        if len(self.devices) != self.mesh.device_count:
            raise LayoutError(
                f"a mesh of {self.mesh.device_count} devices has {len(self.devices)} device numbers"
            )
        if len(np.unique(self.devices)) < len(self.devices) or self.devices.min() < 0:
            raise LayoutError("every rank of a mesh needs a distinct device number from 0")

    @cached_property
    def coordinates(self) -> dict[Axis, IntArray]:
        """(ranks,) The coordinate of every rank, by axis."""
        sizes = [axis.size for axis in self.mesh.axes]
        columns = np.unravel_index(np.arange(len(self.devices)), sizes)
        return {
            name: column.astype(np.int64)
            for name, column in zip(self.mesh.names, columns, strict=True)
        }

    def part(self, at: Mapping[Axis, int]) -> PlacedMesh:
        """The submesh at these coordinates, in which those axes have the size 1."""
        axes = [
            axis.model_copy(update={"size": 1}) if axis.name in at else axis
            for axis in self.mesh.axes
        ]
        matches = [self.coordinates[axis] == coordinate for axis, coordinate in at.items()]
        return PlacedMesh(Mesh(axes=tuple(axes)), self.devices[np.logical_and.reduce(matches)])

    @cached_property
    def order(self) -> IntArray:
        """(ranks,) The ranks by ascending device."""
        return np.argsort(self.devices)

    def rank_of(self, devices: IntArray) -> IntArray:
        """(devices,) The rank on each of some devices; -1 if there is none."""
        ascending = self.devices[self.order]
        at = np.minimum(np.searchsorted(ascending, devices), len(ascending) - 1)
        return np.where(ascending[at] == devices, self.order[at], -1)


@dataclass(frozen=True, eq=False)
class PlacedTensor:
    """A tensor in a layout on a placed mesh.

    splits    the number of chunks of each sub-dim, by dim
    chunks    (ranks, dims) the index of the chunk of every dim on a rank
    neutral   (ranks,) whether a rank holds the neutral element of the reduction, because the layout
              is partial and another rank holds the value
    """

    layout: Layout
    site: PlacedMesh
    splits: tuple[tuple[int, ...], ...]
    chunks: IntArray
    neutral: NDArray[np.bool_]

    @classmethod
    def of(cls, layout: Layout, site: PlacedMesh) -> PlacedTensor:
        """The tensor on a mesh.

        Raises LayoutError if the mesh lacks an axis of the layout or the axes do not divide a dim.
        """
        layout.local_shape(site.mesh)
        site.mesh.size(tuple(layout.partial))
        at = site.coordinates
        ranks = len(site.devices)
        chunks = np.zeros((ranks, len(layout.dims)), dtype=np.int64)
        for d, dim in enumerate(layout.dims):
            for axis in dim.axes:
                chunks[:, d] = chunks[:, d] * site.mesh.size((axis,)) + at[axis]
        neutral = np.zeros(ranks, dtype=bool)
        for axis in layout.partial:
            neutral |= at[axis] > 0
        splits = tuple(
            tuple(site.mesh.size(part.axes) for part in dim.parts) for dim in layout.dims
        )
        return cls(layout, site, splits, chunks, neutral)

    @cached_property
    def ways(self) -> tuple[int, ...]:
        """The number of chunks of every dim."""
        return tuple(prod(split) for split in self.splits)

    @cached_property
    def blocks(self) -> IntArray:
        """(ranks,) The chunks of all dims as one number, first dim major."""
        blocks = np.zeros(len(self.chunks), dtype=np.int64)
        for d, way in enumerate(self.ways):
            blocks = blocks * way + self.chunks[:, d]
        return blocks

    def digit(self, blocks: IntArray, dim: int) -> IntArray:
        """(blocks,) The chunk of one dim in some blocks."""
        return blocks // prod(self.ways[dim + 1 :]) % self.ways[dim]

    def chunks_of(self, block: int) -> tuple[int, ...]:
        """The chunk of every dim in a block."""
        if not self.ways:
            return ()
        return tuple(int(chunk) for chunk in np.unravel_index(block, self.ways))

    def elements(self) -> IntArray:
        """(ranks,) The number of elements on each rank; 0 if the rank is neutral."""
        count = np.ones(len(self.chunks), dtype=np.int64)
        for d, (dim, split) in enumerate(zip(self.layout.dims, self.splits, strict=True)):
            count *= cut_dim(dim, split).lengths()[self.chunks[:, d]]
        return np.where(self.neutral, 0, count)
