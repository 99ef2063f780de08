"""Groups of processes, which all ranks make together and in one order.

A *channel* carries what goes from one stage to another one: a group of its own for each direction,
as a send would else wait behind one that goes the other way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

import torch.distributed as dist

from meshwright.runtime.torch.collectives import Names
from meshwright.schema.rank_strategy import RankStrategy, Site

Group = dist.ProcessGroup | None  # None: all there are


@dataclass(frozen=True, slots=True)
class Groups:
    """Those that this rank is in. of_stages: by the stage's number and set of axes. channels: by
    the numbers of the stages, from and to; those that share parameters have one for both ways."""

    of_stages: dict[int, dict[Names, Group]]
    channels: dict[tuple[int, int], Group]

    def every(self) -> list[dist.ProcessGroup]:
        """Each once, that of all ranks too."""
        found = [own for groups in self.of_stages.values() for own in groups.values()]
        every = (dist.group.WORLD, *found, *self.channels.values())
        return list(dict.fromkeys(own for own in every if own is not None))


def made_groups(strategy: RankStrategy, timeout_s: float) -> Groups:
    """Make them; every rank of the job has to."""
    everyone = tuple(range(dist.get_world_size()))
    timeout = timedelta(seconds=timeout_s)
    known: dict[tuple[int, ...], Group] = {everyone: None}

    def over(ranks: tuple[int, ...]) -> Group:
        if ranks not in known:
            known[ranks] = dist.new_group(list(ranks), timeout=timeout)
        return known[ranks]

    found = Groups({}, {})
    for number, site in enumerate(strategy.sites):
        own: dict[Names, Group] = {}
        for names, ranks in _members(site):
            group = over(ranks)
            if strategy.rank in ranks:
                own[names] = group
        if strategy.rank in _ranks(site):
            found.of_stages[number] = own
    for pair in _pairs(strategy):
        ends = sorted({rank for number in pair for rank in _ranks(strategy.sites[number])})
        channel = dist.new_group(ends, timeout=timeout)
        if strategy.rank in ends:
            found.channels[pair] = channel
    return found


def _ranks(site: Site) -> range:
    return range(site.ranks_from, site.ranks_from + site.mesh.device_count)


def _members(site: Site) -> Iterator[tuple[Names, tuple[int, ...]]]:
    """The groups over every set of axes, each once; and over every axis alone, of which a
    DeviceMesh is made."""
    seen: set[Names] = set()
    sets = [frozenset(a for a in axes if site.mesh.size((a,)) > 1) for axes in site.groups]
    for names in (*sets, *(frozenset((axis,)) for axis in site.mesh.names)):
        if names not in seen:
            seen.add(names)
            for own in site.mesh.groups([axis for axis in site.mesh.names if axis in names]):
                yield names, tuple(site.ranks_from + rank for rank in own)


def _pairs(strategy: RankStrategy) -> list[tuple[int, int]]:
    """Neighbours, there and back; and stages that hold a parameter together."""
    numbers = range(len(strategy.sites))
    holders: dict[str, list[int]] = {}
    for number, site in enumerate(strategy.sites):
        for name in site.parameters:
            holders.setdefault(name, []).append(number)
    beside = [pair for own in pairwise(numbers) for pair in (own, own[::-1])]
    shared = [(a, b) for own in holders.values() for a in own for b in own if a < b]
    return list(dict.fromkeys([*beside, *shared]))
