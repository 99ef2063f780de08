"""Process groups of the stages, which all ranks create together and in the same order.

A *channel* is a process group for the transfers from one stage to another. Each direction has its
own channel, because a send would otherwise wait behind one in the opposite direction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

import torch.distributed as dist

from meshwright.runtime.torch.collectives import Names
from meshwright.schema.rank_strategy import RankStrategy, Site

Group = dist.ProcessGroup | None  # None: the group of all ranks


@dataclass(frozen=True, slots=True)
class StageGroups:
    """The process groups of this rank.

    `of_stages` are the groups by the number of the stage and the set of axes. `channels` are the
    channels by the numbers of the source and target stages. Stages with shared parameters have one
    channel for both directions.
    """

    of_stages: dict[int, dict[Names, Group]]
    channels: dict[tuple[int, int], Group]

    def every(self) -> list[dist.ProcessGroup]:
        """All groups without duplicates, including the group of all ranks."""
        stages = [group for groups in self.of_stages.values() for group in groups.values()]
        every = (dist.group.WORLD, *stages, *self.channels.values())
        return list(dict.fromkeys(group for group in every if group is not None))


def create_groups(strategy: RankStrategy, timeout_s: float) -> StageGroups:
    """Create the process groups. Every rank of the job must call it."""
    everyone = tuple(range(dist.get_world_size()))
    timeout = timedelta(seconds=timeout_s)
    known: dict[tuple[int, ...], Group] = {everyone: None}

    def over(ranks: tuple[int, ...]) -> Group:
        if ranks not in known:
            known[ranks] = dist.new_group(list(ranks), timeout=timeout)
        return known[ranks]

    groups = StageGroups({}, {})
    for number, site in enumerate(strategy.sites):
        of_stage: dict[Names, Group] = {}
        for names, ranks in _members(site):
            group = over(ranks)
            if strategy.rank in ranks:
                of_stage[names] = group
        if strategy.rank in _ranks(site):
            groups.of_stages[number] = of_stage
    for pair in _pairs(strategy):
        ends = sorted({rank for number in pair for rank in _ranks(strategy.sites[number])})
        channel = dist.new_group(ends, timeout=timeout)
        if strategy.rank in ends:
            groups.channels[pair] = channel
    return groups


def _ranks(site: Site) -> range:
    return range(site.ranks_from, site.ranks_from + site.mesh.device_count)


def _members(site: Site) -> Iterator[tuple[Names, tuple[int, ...]]]:
    """The groups over every set of axes, and over every single axis for the DeviceMesh."""
    seen: set[Names] = set()
    sets = [frozenset(a for a in axes if site.mesh.size((a,)) > 1) for axes in site.groups]
    for names in (*sets, *(frozenset((axis,)) for axis in site.mesh.names)):
        if names not in seen:
            seen.add(names)
            for group in site.mesh.groups([axis for axis in site.mesh.names if axis in names]):
                yield names, tuple(site.ranks_from + rank for rank in group)


def _pairs(strategy: RankStrategy) -> list[tuple[int, int]]:
    """Pairs of neighboring stages in both directions, and pairs with shared parameters."""
    numbers = range(len(strategy.sites))
    holders: dict[str, list[int]] = {}
    for number, site in enumerate(strategy.sites):
        for name in site.parameters:
            holders.setdefault(name, []).append(number)
    neighbors = [pair for forth in pairwise(numbers) for pair in (forth, forth[::-1])]
    shared = [(a, b) for stages in holders.values() for a in stages for b in stages if a < b]
    return list(dict.fromkeys([*neighbors, *shared]))
