"""Rooted collectives: reduce to, or broadcast from, the device that owns a parameter.

A value that only the owner has is partial along its axes: zero on all other devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meshwright.schema import Axis, Layout, Mesh, Rank, Step
from meshwright_solver.verification.execution.collectives import StepError
from meshwright_solver.verification.execution.shards import Shards

ROOTED = ("reduce", "broadcast")


def run_rooted(
    step: Step, shards: Shards, before: Layout, owner: Mapping[Axis, int], mesh: Mesh
) -> Shards:
    """All devices' shards after a reduction to the owner, or a broadcast from it."""
    partial = {axis for axis in step.axes if before.partial.get(axis) == "sum"}
    after = before if step.kind == "reduce" else _without(before, step.axes)
    if len(partial) < len(step.axes) or after != step.to:
        raise StepError(
            f"{step.kind} over {', '.join(step.axes)} from {before} does not give {step.to}"
        )
    result = list(shards)
    for group in mesh.groups(step.axes):
        root = _owner_in(group, step.axes, owner, mesh)
        if step.kind == "reduce":
            total = np.add.reduce([shards[rank] for rank in group])
            for rank in group:
                result[rank] = total if rank == root else np.zeros_like(total)
        else:
            for rank in group:
                result[rank] = shards[root].copy()
    return result


def at_owner(shards: Shards, owner: Mapping[Axis, int], mesh: Mesh) -> Shards:
    """The owner's shard of a replicated value; zeros on all other devices."""
    coordinates = [mesh.coordinates(rank) for rank in range(mesh.device_count)]
    return [
        shard if all(at[axis] == place for axis, place in owner.items()) else np.zeros_like(shard)
        for shard, at in zip(shards, coordinates, strict=True)
    ]


def partial_along(layout: Layout, axes: Sequence[Axis]) -> Layout:
    """The layout of a value that one device of a group over these axes has."""
    partial = {**layout.partial, **dict.fromkeys(axes, "sum")}
    return Layout(dims=layout.dims, partial=partial, padded=layout.padded)  # type: ignore[arg-type]  # sums


def _without(layout: Layout, axes: Sequence[Axis]) -> Layout:
    partial = {axis: how for axis, how in layout.partial.items() if axis not in axes}
    return Layout(dims=layout.dims, partial=partial, padded=layout.padded)


def _owner_in(
    group: Sequence[Rank], axes: Sequence[Axis], owner: Mapping[Axis, int], mesh: Mesh
) -> Rank:
    for rank in group:
        at = mesh.coordinates(rank)
        if all(at[axis] == owner.get(axis) for axis in axes):
            return rank
    raise StepError(f"no device along {', '.join(axes)} is the owner {dict(owner)}")
