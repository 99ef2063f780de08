"""Parameters dealt out whole: where no dim divides, one device of a group has the optimizer state.

    state       the value as ever; the optimizer's, as fine as it can be cut, and perhaps the
                gradient's lie on one of the devices along the axes that cut nothing more
    reduction   once a step, or where the gradient lies there too in every microbatch, the gradients
                of all of them are added up on that one
    update      there; then its result is broadcast
    memory      the mean over the group, in a search; what the fullest device has, in a plan

Dealt are the largest first, each to the devices that hold least so far (longest processing time
first): the fullest holds at most 4/3 of what the best dealing leaves it. Which device of equal ones
it is goes by the order of the parameters, so that the loads follow from sizes and groups alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from meshwright.schema import Axis, ParameterPlan, Stage

Group = tuple[int, ...]  # axes, by position


class Dealt(NamedTuple):
    """A parameter's state of so many bytes, on one device of each group over axes of a mesh.

    has_gradient: with its gradient.
    """

    axes: Group
    bytes: int
    axis_sizes: tuple[int, ...]
    has_gradient: bool = False


class Dealing(NamedTuple):
    """owners: of each, its coordinates on the axes of its group. extra_bytes: what the fullest
    device holds beyond the mean."""

    owners: tuple[tuple[int, ...], ...]
    extra_bytes: int


def deal(items: Sequence[Dealt]) -> Dealing:
    """Each item to a device of its groups; all are on one mesh."""
    if not items:
        return Dealing((), 0)
    axis_sizes = items[0].axis_sizes
    held = np.zeros(axis_sizes, dtype=np.int64)
    owners: list[tuple[int, ...]] = [()] * len(items)
    mean = 0.0
    for place in sorted(range(len(items)), key=lambda k: (-items[k].bytes, items[k].axes)):
        axes, size, *_ = items[place]
        others = tuple(a for a in range(len(axis_sizes)) if a not in axes)
        fullest = held.max(axis=others) if others else held
        at = np.unravel_index(int(fullest.argmin()), fullest.shape)
        owners[place] = tuple(int(own) for own in at)
        index: list[slice | int] = [slice(None)] * len(axis_sizes)
        for axis, own in zip(axes, owners[place], strict=True):
            index[axis] = own
        held[tuple(index)] += size
        mean += size / fullest.size
    return Dealing(tuple(owners), round(int(held.max()) - mean))


def extra_bytes(items: Iterable[tuple[Dealt, int]]) -> int:
    """Of items that there are so many of."""
    return deal([own for own, count in items for _ in range(count)]).extra_bytes


def stage_extra_bytes(stage: Stage) -> int:
    """What the fullest device of a stage holds beyond the mean of what is dealt out."""
    return deal(list(_dealt(stage).values())).extra_bytes


def with_owners(stage: Stage) -> Stage:
    """A stage whose parameters say which device of a group keeps what is dealt out."""
    dealt = _dealt(stage)
    if not dealt:
        return stage
    owners = dict(zip(dealt, deal(list(dealt.values())).owners, strict=True))

    def owned(own: ParameterPlan) -> ParameterPlan:
        if not own.owner:
            return own
        found: Mapping[Axis, int] = dict(zip(own.owner, owners[own.tensor], strict=True))
        return own.like(owner=found)

    return stage.like(parameters=tuple(map(owned, stage.parameters)))


def _dealt(stage: Stage) -> dict[str, Dealt]:
    mesh = stage.mesh
    names, sizes = list(mesh.names), tuple(axis.size for axis in mesh.axes)
    return {
        own.tensor: Dealt(tuple(names.index(axis) for axis in own.owner), own.dealt_bytes, sizes)
        for own in stage.parameters
        if own.owner
    }
