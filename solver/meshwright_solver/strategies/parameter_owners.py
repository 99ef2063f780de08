"""Parameter owners: where no dim divides, one device of a group holds the optimizer state whole.

    state       the value as usual; optimizer state, cut as finely as possible, and perhaps the
                gradient lie on one owner along the axes without a further cut
    reduction   gradients are reduced to the owner, once a step; in every microbatch if the owner
                holds the gradient too
    update      on the owner, which then broadcasts the result
    memory      the mean over the group in a search; that of the fullest device in a plan

Owners are assigned by longest processing time first: the largest parameter first, each to the
device that holds least. The fullest device holds at most 4/3 of the optimum. Ties follow the order
of parameters and of coordinates, so that loads depend on sizes and groups alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from meshwright.schema import Axis, ParameterPlan, Stage

Group = tuple[int, ...]  # axes, by position


class Dealt(NamedTuple):
    """A parameter state that one owner of each group over `axes` of a mesh holds whole.

    has_gradient: the owner holds the gradient too.
    """

    axes: Group
    bytes: int
    axis_sizes: tuple[int, ...]
    has_gradient: bool = False


class Dealing(NamedTuple):
    """An assignment of owners. owners: by parameter, coordinates on the axes of its group.

    extra_bytes: bytes of the fullest device above the mean.
    """

    owners: tuple[tuple[int, ...], ...]
    extra_bytes: int


def deal(items: Sequence[Dealt]) -> Dealing:
    """Assign each item to a device of its groups; all items are on one mesh."""
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
        owners[place] = tuple(int(coordinate) for coordinate in at)
        index: list[slice | int] = [slice(None)] * len(axis_sizes)
        for axis, coordinate in zip(axes, owners[place], strict=True):
            index[axis] = coordinate
        held[tuple(index)] += size
        mean += size / fullest.size
    return Dealing(tuple(owners), round(int(held.max()) - mean))


def extra_bytes(items: Iterable[tuple[Dealt, int]]) -> int:
    """`Dealing.extra_bytes` of items with their counts."""
    return deal([item for item, count in items for _ in range(count)]).extra_bytes


def stage_extra_bytes(stage: Stage) -> int:
    """Bytes of the fullest device of a stage above the mean, of states with owners."""
    return deal(list(_dealt_states(stage).values())).extra_bytes


def with_owners(stage: Stage) -> Stage:
    """The stage with the owners of its parameters."""
    dealt = _dealt_states(stage)
    if not dealt:
        return stage
    owners = dict(zip(dealt, deal(list(dealt.values())).owners, strict=True))

    def with_owner(parameter: ParameterPlan) -> ParameterPlan:
        if not parameter.owner:
            return parameter
        owner: Mapping[Axis, int] = dict(
            zip(parameter.owner, owners[parameter.tensor], strict=True)
        )
        return parameter.like(owner=owner)

    return stage.like(parameters=tuple(map(with_owner, stage.parameters)))


def _dealt_states(stage: Stage) -> dict[str, Dealt]:
    mesh = stage.mesh
    names, sizes = list(mesh.names), tuple(axis.size for axis in mesh.axes)
    return {
        parameter.tensor: Dealt(
            tuple(names.index(axis) for axis in parameter.owner), parameter.dealt_bytes, sizes
        )
        for parameter in stage.parameters
        if parameter.owner
    }
