"""Redistribution steps on local shards inside `jax.shard_map`: one program for all devices.

slice, mask                  local: a part of the shard, or zeros except on the first device
all_gather, all_to_all       every member assembles its new shard from those of the others
all_reduce, reduce_scatter   the sum or maximum of the members' shards, then sliced
permute                      every member sends its whole shard to one other

Pieces that are contiguous in a sub-dim in the order of the members use JAX's tiled collectives. All
others are stacked before the collective and unstacked after it.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from meshwright.runtime.jax.places import Common, Regions, common, in_order, put, taken
from meshwright.runtime.local_slices import from_parts, shape_of, to_parts
from meshwright.runtime.redistribution_steps import LayoutChange
from meshwright.schema import Axis, Layout, Mesh, PlanError, Step
from meshwright.schema.regions import Region, region

A = jax.Array


class JaxCollectives:
    """The steps of one stage, for use inside a `shard_map` over all axes of its mesh."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh

    def move(self, local: A, move: LayoutChange) -> A:
        """The local shard after some steps; raises PlanError for an unsupported step."""
        before = move.before
        for step in move.steps:
            parts = to_parts(local, before, self.mesh, jnp.concatenate)
            parts = self._step(step, parts, before, move.tensor)
            local = from_parts(parts, step.to, self.mesh, jnp.concatenate)
            before = step.to
        return local

    def all_reduce(self, local: A, axes: Sequence[Axis], how: str = "sum") -> A:
        """The sum or maximum over the members of each group."""
        names = self._nontrivial(axes)
        if not names:
            return local
        total: A = (lax.pmax if how == "max" else lax.psum)(local, names)
        return total

    def part(self, axes: Sequence[Axis]) -> A | int:
        """The index of a device's part over these axes, the first slowest."""
        names = tuple(axis for axis in axes if self.mesh.size((axis,)) > 1)
        return lax.axis_index(names) if names else 0

    def _nontrivial(self, axes: Sequence[Axis]) -> tuple[Axis, ...]:
        return tuple(a for a in self.mesh.names if a in axes and self.mesh.size((a,)) > 1)

    def _step(self, step: Step, parts: A, before: Layout, of: str) -> A:
        source, target = self._regions(before), self._regions(step.to)
        if step.kind == "slice":
            box = common(source, target, of)
            return taken(parts, box.first, box.shape, self.mesh.names)
        if step.kind == "mask":
            return self._mask(step, parts, before, common(source, target, of), shape_of(target[0]))
        names = self._nontrivial(step.axes)
        if not names:
            return parts
        if step.kind == "all_reduce":
            return self.all_reduce(parts, names, _how(before, step.axes))
        if step.kind == "permute":
            return lax.ppermute(parts, self.mesh.names, self._senders(names, before, step.to))
        if step.kind == "all_gather":
            receives = [common(region, target, of) for region in self._of_members(names, source)]
            return self._all_gather(parts, names, receives, shape_of(target[0]))
        if step.kind == "reduce_scatter":
            sends = [common(source, region, of) for region in self._of_members(names, target)]
            if sends[0].shape != shape_of(target[0]):
                raise PlanError(
                    f"{of!r}: a reduce_scatter over {', '.join(step.axes)} to {step.to} needs "
                    "parts that its group does not hold"
                )
            return self._reduce_scatter(parts, names, sends)
        if step.kind == "all_to_all":
            sends = [common(source, region, of) for region in self._of_members(names, target)]
            receives = [common(region, target, of) for region in self._of_members(names, source)]
            return self._all_to_all(parts, names, sends, receives, shape_of(target[0]))
        raise PlanError(
            f"{of!r}: the runtime does not support steps of the kind {step.kind}. Plan without "
            "sparse gradients and without whole parameters on owners"
        )

    def _all_gather(
        self, parts: A, names: Sequence[Axis], receives: Sequence[Common], shape: tuple[int, ...]
    ) -> A:
        dim = in_order([box.second for box in receives], parts.shape, shape)
        if dim is not None:
            return lax.all_gather(parts, names, axis=dim, tiled=True)
        return self._unstack(lax.all_gather(parts, names), receives, shape)

    def _reduce_scatter(self, parts: A, names: Sequence[Axis], sends: Sequence[Common]) -> A:
        dim = in_order([box.first for box in sends], sends[0].shape, parts.shape)
        if dim is not None:
            return lax.psum_scatter(parts, names, scatter_dimension=dim, tiled=True)
        return lax.psum_scatter(self._stack(parts, sends), names)

    def _all_to_all(
        self,
        parts: A,
        names: Sequence[Axis],
        sends: Sequence[Common],
        receives: Sequence[Common],
        shape: tuple[int, ...],
    ) -> A:
        by = in_order([box.first for box in sends], sends[0].shape, parts.shape)
        to = in_order([box.second for box in receives], receives[0].shape, shape)
        if by is not None and to is not None:
            return lax.all_to_all(parts, names, by, to, tiled=True)
        pieces = lax.all_to_all(self._stack(parts, sends), names, 0, 0, tiled=True)
        places = [
            Common(box.first - box.first, box.second, box.shape) for box in receives
        ]  # each piece arrives separately and begins at 0
        return self._unstack(pieces, places, shape)

    def _mask(self, step: Step, parts: A, before: Layout, box: Common, shape: tuple[int, ...]) -> A:
        split = {axis for dim in before.dims for axis in dim.axes}
        is_first = self.part([axis for axis in step.axes if axis not in split]) == 0
        return self._unstack(jnp.where(is_first, parts, jnp.zeros_like(parts))[None], [box], shape)

    def _stack(self, parts: A, sends: Sequence[Common]) -> A:
        return jnp.stack([taken(parts, box.first, box.shape, self.mesh.names) for box in sends])

    def _unstack(self, pieces: A, receives: Sequence[Common], shape: tuple[int, ...]) -> A:
        """An array of zeros with the pieces of the members at their places."""
        array = jnp.zeros(shape, pieces.dtype)
        for piece, box in zip(pieces, receives, strict=True):
            part = taken(piece, box.first, box.shape, self.mesh.names)
            array = put(array, part, box.second, self.mesh.names)
        return array

    def _regions(self, layout: Layout) -> Regions:
        return [region(layout, self.mesh, rank) for rank in range(self.mesh.device_count)]

    def _of_members(self, names: Sequence[Axis], regions: Regions) -> list[Regions]:
        """The regions of the members at each place of a group, by the rank of the reader."""
        groups = {rank: group for group in self.mesh.groups(names) for rank in group}
        members = [groups[rank] for rank in sorted(groups)]
        return [[regions[group[place]] for group in members] for place in range(len(members[0]))]

    def _senders(
        self, names: Sequence[Axis], before: Layout, after: Layout
    ) -> list[tuple[int, int]]:
        """The pair (source, target) of every device. Replicas are matched in order."""
        pairs: list[tuple[int, int]] = []
        for group in self.mesh.groups(names):
            holders: dict[tuple[Region, tuple[int, ...]], list[int]] = {}
            for rank in group:
                holders.setdefault(self._content(rank, before), []).append(rank)
            pairs += [(holders[self._content(rank, after)].pop(0), rank) for rank in group]
        return pairs

    def _content(self, rank: int, layout: Layout) -> tuple[Region, tuple[int, ...]]:
        at = self.mesh.coordinates(rank)
        partial = tuple(at[axis] for axis in self.mesh.names if axis in layout.partial)
        return region(layout, self.mesh, rank), partial


def _how(before: Layout, axes: Sequence[Axis]) -> str:
    """The pending reduction; a sum for gradients, whose layout may not state it."""
    return next((before.partial[a] for a in axes if a in before.partial), "sum")
