"""Holdings: which chunk of every dim of a tensor lies on which device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Axis, Layout, LayoutError, Mesh
from meshwright.schema.arrays import IntArray
from meshwright.schema.routing.cuts import cut_dim


@dataclass(frozen=True, eq=False)
class Site:
    """A mesh on devices of a cluster: devices[rank] is the device's number there.

    LayoutError where these are not as many different ones as the mesh has ranks.
    """

    mesh: Mesh
    devices: IntArray

    def __post_init__(self) -> None:
        if len(self.devices) != self.mesh.device_count:
            raise LayoutError(
                f"a mesh of {self.mesh.device_count} devices lies on {len(self.devices)} devices"
            )
        if len(np.unique(self.devices)) < len(self.devices) or self.devices.min() < 0:
            raise LayoutError("every rank of a mesh lies on a device of its own, counted from 0")

    @cached_property
    def coordinates(self) -> dict[Axis, IntArray]:
        """(ranks,) where every rank stands on each axis."""
        sizes = [axis.size for axis in self.mesh.axes]
        found = np.unravel_index(np.arange(len(self.devices)), sizes)
        return {name: at.astype(np.int64) for name, at in zip(self.mesh.names, found, strict=True)}

    def part(self, at: Mapping[Axis, int]) -> Site:
        """The devices at these coordinates: a mesh of which those axes have one place."""
        axes = [
            axis.model_copy(update={"size": 1}) if axis.name in at else axis
            for axis in self.mesh.axes
        ]
        here = [self.coordinates[axis] == own for axis, own in at.items()]
        return Site(Mesh(axes=tuple(axes)), self.devices[np.logical_and.reduce(here)])

    @cached_property
    def order(self) -> IntArray:
        """The ranks by ascending device."""
        return np.argsort(self.devices)

    def rank_of(self, devices: IntArray) -> IntArray:
        """The rank on each of some devices; -1 where there is none."""
        ascending = self.devices[self.order]
        at = np.minimum(np.searchsorted(ascending, devices), len(ascending) - 1)
        return np.where(ascending[at] == devices, self.order[at], -1)


@dataclass(frozen=True, eq=False)
class Holding:
    """A tensor in a layout on a site.

    splits: per dim, how many ways each of its parts is split. chunks: (ranks, dims) the chunk of
    every dim that a rank holds. neutral: (ranks,) where the layout is partial and another rank
    stands for the value, so that this one holds the neutral element of the reduction.
    """

    layout: Layout
    site: Site
    splits: tuple[tuple[int, ...], ...]
    chunks: IntArray
    neutral: NDArray[np.bool_]

    @classmethod
    def of(cls, layout: Layout, site: Site) -> Holding:
        """LayoutError where the mesh has not the layout's axes, or other chunks than axes."""
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
        """(ranks,) the chunks of all dims as one number, first dim major."""
        found = np.zeros(len(self.chunks), dtype=np.int64)
        for d, way in enumerate(self.ways):
            found = found * way + self.chunks[:, d]
        return found

    def digit(self, blocks: IntArray, dim: int) -> IntArray:
        """The chunk of one dim in some blocks."""
        return blocks // prod(self.ways[dim + 1 :]) % self.ways[dim]

    def chunks_of(self, block: int) -> tuple[int, ...]:
        """The chunk of every dim in a block."""
        if not self.ways:
            return ()
        return tuple(int(chunk) for chunk in np.unravel_index(block, self.ways))

    def elements(self) -> IntArray:
        """(ranks,) the number of elements that each rank holds; none where it is neutral."""
        found = np.ones(len(self.chunks), dtype=np.int64)
        for d, (dim, split) in enumerate(zip(self.layout.dims, self.splits, strict=True)):
            found *= cut_dim(dim, split).lengths()[self.chunks[:, d]]
        return np.where(self.neutral, 0, found)
