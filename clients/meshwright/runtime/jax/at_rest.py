"""Stored arrays: the shape and PartitionSpec of a JAX array in a layout.

An array has the shape of its tensor if every shard is contiguous in every dim. Otherwise it has a
dim for every sub-dim (`runtime.local_slices`).
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from meshwright.convert import grid_of, to_jax
from meshwright.runtime.gather_whole import whole_of
from meshwright.runtime.local_slices import from_parts, to_parts
from meshwright.schema import ConversionError, Layout, Mesh
from meshwright.schema.regions import stored_shape

A = jax.Array


class StoredArray:
    """Arrays of one layout without partial sums. `spec` is the PartitionSpec of `shape`."""

    def __init__(self, layout: Layout, mesh: Mesh) -> None:
        self.layout = Layout(dims=layout.dims)
        self._mesh = mesh
        try:
            sharding = to_jax(self.layout, grid_of(mesh))
        except ConversionError:
            sharding = None
        self._is_in_parts = sharding is None
        if sharding is None:
            self.shape = stored_shape(whole_of(layout), mesh)
            cuts = [part.axes for dim in layout.dims for part in dim.parts]
            self.spec = PartitionSpec(*(axes or None for axes in cuts))
        else:
            self.shape, self.spec = sharding.shape, sharding.to_jax()

    def sharding(self, devices: jax.sharding.Mesh) -> NamedSharding:
        """The sharding on a JAX mesh with the axes of the plan's mesh."""
        return NamedSharding(devices, self.spec)

    def of_whole(self, whole: A) -> A:
        """A whole tensor in this shape."""
        if not self._is_in_parts:
            return whole
        return to_parts(whole, whole_of(self.layout), self._mesh, jnp.concatenate)

    def whole(self, array: A) -> A:
        """An array of this shape as the whole tensor."""
        if not self._is_in_parts:
            return array
        return from_parts(array, whole_of(self.layout), self._mesh, jnp.concatenate)

    def of_local(self, local: A) -> A:
        """The shard of the array, from the local shard of the tensor."""
        if not self._is_in_parts:
            return local
        return to_parts(local, self.layout, self._mesh, jnp.concatenate)

    def local(self, shard: A) -> A:
        """The local shard of the tensor, from the shard of the array."""
        if not self._is_in_parts:
            return shard
        return from_parts(shard, self.layout, self._mesh, jnp.concatenate)

    def constrained(self, whole: A, devices: jax.sharding.Mesh) -> A:
        """A whole tensor with a sharding constraint, in a program for all devices."""
        array = jax.lax.with_sharding_constraint(self.of_whole(whole), self.sharding(devices))
        return self.whole(array)


def resting(layouts: Mapping[str, Layout], mesh: Mesh) -> dict[str, StoredArray]:
    """The stored arrays of some layouts, by name."""
    return {name: StoredArray(layout, mesh) for name, layout in layouts.items()}
