"""How JAX holds an array that lies as a layout says: its shape, and its PartitionSpec.

An array has its tensor's shape where that can be: where every dim is cut into as many stretches as
it has parts. Else it has a dim for every sub-dim (`runtime.parts`), which always can be said.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from meshwright.convert import grid_of, to_jax
from meshwright.runtime.parts import from_parts, to_parts
from meshwright.runtime.whole import whole_of
from meshwright.schema import ConversionError, Layout, Mesh
from meshwright.schema.regions import stored_shape

A = jax.Array


class AtRest:
    """Arrays of one layout, which is not partial. spec: for `shape`."""

    def __init__(self, layout: Layout, mesh: Mesh) -> None:
        self.layout = Layout(dims=layout.dims)
        self._mesh = mesh
        try:
            own = to_jax(self.layout, grid_of(mesh))
        except ConversionError:
            own = None
        self._is_in_parts = own is None
        if own is None:
            self.shape = stored_shape(whole_of(layout), mesh)
            cuts = [part.axes for dim in layout.dims for part in dim.parts]
            self.spec = PartitionSpec(*(axes or None for axes in cuts))
        else:
            self.shape, self.spec = own.shape, own.to_jax()

    def sharding(self, devices: jax.sharding.Mesh) -> NamedSharding:
        """On a Mesh with the axes of the plan's."""
        return NamedSharding(devices, self.spec)

    def of_whole(self, whole: A) -> A:
        """A whole tensor in this shape."""
        if not self._is_in_parts:
            return whole
        return to_parts(whole, whole_of(self.layout), self._mesh, jnp.concatenate)

    def whole(self, held: A) -> A:
        """An array of this shape as the whole tensor."""
        if not self._is_in_parts:
            return held
        return from_parts(held, whole_of(self.layout), self._mesh, jnp.concatenate)

    def of_local(self, local: A) -> A:
        """What a device holds of the tensor, as its shard of the array."""
        if not self._is_in_parts:
            return local
        return to_parts(local, self.layout, self._mesh, jnp.concatenate)

    def local(self, shard: A) -> A:
        """A shard of the array as what the device holds of the tensor."""
        if not self._is_in_parts:
            return shard
        return from_parts(shard, self.layout, self._mesh, jnp.concatenate)

    def constrained(self, whole: A, devices: jax.sharding.Mesh) -> A:
        """A whole tensor in a program for all devices, told to lie so."""
        held = jax.lax.with_sharding_constraint(self.of_whole(whole), self.sharding(devices))
        return self.whole(held)


def resting(layouts: Mapping[str, Layout], mesh: Mesh) -> dict[str, AtRest]:
    """By name."""
    return {name: AtRest(layout, mesh) for name, layout in layouts.items()}
