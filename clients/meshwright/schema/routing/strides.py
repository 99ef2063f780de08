"""Strides: how many devices lie in one unit of a level of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from meshwright.schema.topology import Topology


def strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Devices in a unit of each level but the slowest, fastest first; sizes: slowest first."""
    return tuple(prod(sizes[level:]) for level in range(len(sizes) - 1, 0, -1))


def strides_of_groups(groups: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Of the largest units that lie in one unit of the fastest level of every group."""
    units = [prod(sizes) for sizes in groups]
    units += [own[0] for own in map(strides, groups) if own]
    found = gcd(*units)
    return (found,) if found > 1 else ()


def strides_of(topology: Topology) -> tuple[int, ...]:
    """Of a cluster of one kind of device, or of several."""
    groups = [[level.size for level in group.levels] for group in topology.groups]
    return strides_of_groups(groups) if topology.beside else strides(groups[0])
