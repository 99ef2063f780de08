"""The steps of a plan on what a device holds, inside `jax.shard_map`: one program for all devices.

slice, mask                  local: a part is kept, or stands where the sum takes it from
all_gather, all_to_all       every member puts its new part together from what the others hold
all_reduce, reduce_scatter   the sum or maximum of the members' parts, then sliced
permute                      every member sends what it holds, whole, to one other

Pieces that make up a sub-dim in the order of the members go through JAX's collective as they are;
others are stacked, and unstacked behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from meshwright.runtime.jax.places import Common, Regions, common, in_order, put, taken
from meshwright.runtime.moves import Move
from meshwright.runtime.parts import from_parts, shape_of, to_parts
from meshwright.schema import Axis, Layout, Mesh, PlanError, Step
from meshwright.schema.regions import Region, region

A = jax.Array


class Collectives:
    """Runs steps of one stage. To be used inside a `shard_map` over all axes of its mesh."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh

    def move(self, local: A, move: Move) -> A:
        """What a device holds after some steps; PlanError for one that is not carried out."""
        before = move.before
        for step in move.steps:
            parts = to_parts(local, before, self.mesh, jnp.concatenate)
            made = self._step(step, parts, before, move.tensor)
            local = from_parts(made, step.to, self.mesh, jnp.concatenate)
            before = step.to
        return local

    def all_reduce(self, own: A, axes: Sequence[Axis], how: str = "sum") -> A:
        """The sum or maximum over the members of each group."""
        names = self._longer(axes)
        if not names:
            return own
        reduced: A = (lax.pmax if how == "max" else lax.psum)(own, names)
        return reduced

    def part(self, axes: Sequence[Axis]) -> A | int:
        """Which of the parts over these axes, the first slowest, a device has."""
        names = tuple(axis for axis in axes if self.mesh.size((axis,)) > 1)
        return lax.axis_index(names) if names else 0

    def _longer(self, axes: Sequence[Axis]) -> tuple[Axis, ...]:
        return tuple(a for a in self.mesh.names if a in axes and self.mesh.size((a,)) > 1)

    def _step(self, step: Step, parts: A, before: Layout, of: str) -> A:
        held, wanted = self._regions(before), self._regions(step.to)
        if step.kind == "slice":
            own = common(held, wanted, of)
            return taken(parts, own.first, own.shape, self.mesh.names)
        if step.kind == "mask":
            return self._masked(step, parts, before, common(held, wanted, of), shape_of(wanted[0]))
        names = self._longer(step.axes)
        if not names:
            return parts
        if step.kind == "all_reduce":
            return self.all_reduce(parts, names, _how(before, step.axes))
        if step.kind == "permute":
            return lax.ppermute(parts, self.mesh.names, self._senders(names, before, step.to))
        if step.kind == "all_gather":
            come = [common(own, wanted, of) for own in self._of_members(names, held)]
            return self._gathered(parts, names, come, shape_of(wanted[0]))
        if step.kind == "reduce_scatter":
            sent = [common(held, own, of) for own in self._of_members(names, wanted)]
            if sent[0].shape != shape_of(wanted[0]):
                raise PlanError(
                    f"{of!r}: a reduce_scatter over {', '.join(step.axes)} to {step.to} needs "
                    "parts that its group does not hold"
                )
            return self._scattered(parts, names, sent)
        if step.kind == "all_to_all":
            sent = [common(held, own, of) for own in self._of_members(names, wanted)]
            come = [common(own, wanted, of) for own in self._of_members(names, held)]
            return self._exchanged(parts, names, sent, come, shape_of(wanted[0]))
        raise PlanError(
            f"{of!r}: steps of the kind {step.kind} are not carried out; plan without gradients "
            "of rows and without dealt parameters"
        )

    def _gathered(
        self, parts: A, names: Sequence[Axis], come: Sequence[Common], shape: tuple[int, ...]
    ) -> A:
        dim = in_order([own.second for own in come], parts.shape, shape)
        if dim is not None:
            return lax.all_gather(parts, names, axis=dim, tiled=True)
        return self._joined(lax.all_gather(parts, names), come, shape)

    def _scattered(self, parts: A, names: Sequence[Axis], sent: Sequence[Common]) -> A:
        dim = in_order([own.first for own in sent], sent[0].shape, parts.shape)
        if dim is not None:
            return lax.psum_scatter(parts, names, scatter_dimension=dim, tiled=True)
        return lax.psum_scatter(self._stacked(parts, sent), names)

    def _exchanged(
        self,
        parts: A,
        names: Sequence[Axis],
        sent: Sequence[Common],
        come: Sequence[Common],
        shape: tuple[int, ...],
    ) -> A:
        by = in_order([own.first for own in sent], sent[0].shape, parts.shape)
        to = in_order([own.second for own in come], come[0].shape, shape)
        if by is not None and to is not None:
            return lax.all_to_all(parts, names, by, to, tiled=True)
        got = lax.all_to_all(self._stacked(parts, sent), names, 0, 0, tiled=True)
        arrived = [
            Common(own.first - own.first, own.second, own.shape) for own in come
        ]  # a piece comes alone, and begins at its own start
        return self._joined(got, arrived, shape)

    def _masked(
        self, step: Step, parts: A, before: Layout, own: Common, shape: tuple[int, ...]
    ) -> A:
        split = {axis for dim in before.dims for axis in dim.axes}
        is_first = self.part([axis for axis in step.axes if axis not in split]) == 0
        return self._joined(jnp.where(is_first, parts, jnp.zeros_like(parts))[None], [own], shape)

    def _stacked(self, parts: A, sent: Sequence[Common]) -> A:
        return jnp.stack([taken(parts, own.first, own.shape, self.mesh.names) for own in sent])

    def _joined(self, pieces: A, come: Sequence[Common], shape: tuple[int, ...]) -> A:
        """Pieces of members, each at its place in zeros."""
        made = jnp.zeros(shape, pieces.dtype)
        for piece, own in zip(pieces, come, strict=True):
            part = taken(piece, own.first, own.shape, self.mesh.names)
            made = put(made, part, own.second, self.mesh.names)
        return made

    def _regions(self, layout: Layout) -> Regions:
        return [region(layout, self.mesh, rank) for rank in range(self.mesh.device_count)]

    def _of_members(self, names: Sequence[Axis], regions: Regions) -> list[Regions]:
        """For each place in a group: the region that the member there has, by who asks."""
        groups = {rank: group for group in self.mesh.groups(names) for rank in group}
        members = [groups[rank] for rank in sorted(groups)]
        return [[regions[own[place]] for own in members] for place in range(len(members[0]))]

    def _senders(
        self, names: Sequence[Axis], before: Layout, after: Layout
    ) -> list[tuple[int, int]]:
        """(from, to) for every device; copies go in order."""
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
    """Partial by what; gradients are summed whether their layout says so or not."""
    return next((before.partial[a] for a in axes if a in before.partial), "sum")
