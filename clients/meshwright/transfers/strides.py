"""Strides: the number of devices in one unit of a level of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from meshwright.schema.topology import Topology


def strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """The devices in a unit of each level but the slowest, fastest first.

    `sizes` are the sizes of the levels, slowest first.
    """
    return tuple(prod(sizes[level:]) for level in range(len(sizes) - 1, 0, -1))


def strides_of_groups(groups: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The devices of the largest unit that divides a unit of the fastest level of every group."""
    units = [prod(sizes) for sizes in groups]
    units += [level_strides[0] for level_strides in map(strides, groups) if level_strides]
    unit = gcd(*units)
    return (unit,) if unit > 1 else ()


def strides_of(topology: Topology) -> tuple[int, ...]:
    """The strides of a topology with one group of devices or several."""
    groups = [[level.size for level in group.levels] for group in topology.groups]
    return strides_of_groups(groups) if topology.beside else strides(groups[0])
