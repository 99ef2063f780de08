"""Placement of pipeline ranks: neighboring ranks on equal parts of one group of devices.

A rank never spans groups: a stage has one kind of device. The parts of one group are equal; the
parts of different groups may differ in size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations, product

import numpy as np

from meshwright.schema import Link, Plan, PlanError, Topology
from meshwright_costmodel.collectives import NS_PER_S
from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.pipeline.rank_topology import rank_counts, split


@dataclass(frozen=True, slots=True)
class RankShare:
    """Consecutive ranks that share all devices of one group of the topology equally."""

    group: int
    ranks: int


Placement = tuple[RankShare, ...]  # from the first rank to the last


@dataclass(frozen=True, slots=True)
class RankPart:
    """The devices of one rank.

    first: number of its first device in the cluster. link: the slowest to other ranks of its
    group; None if it has the whole group.
    """

    group: int
    topology: Topology
    first: int
    link: Link | None


def parts_of(topology: Topology, placement: Placement) -> tuple[RankPart, ...]:
    """The parts by rank. Raises InvalidInput if a group cannot be cut into so many parts."""
    groups = topology.groups
    firsts = [sum(group.device_count for group in groups[:number]) for number in range(len(groups))]
    parts: list[RankPart] = []
    for share in placement:
        group, first = groups[share.group], firsts[share.group]
        part, link = (group, None) if share.ranks == 1 else split(group, share.ranks)
        parts += (
            RankPart(share.group, part, first + rank * part.device_count, link)
            for rank in range(share.ranks)
        )
    return tuple(parts)


def placements(topology: Topology, most: int) -> Iterator[Placement]:
    """All placements of two to `most` ranks: subsets of groups, their ranks and their order."""
    groups = topology.groups
    counts = [(0, *(c for c in rank_counts(group) if c <= most)) for group in groups]
    for ranks in product(*counts):
        if 2 <= sum(ranks) <= most:
            shares = [RankShare(group, count) for group, count in enumerate(ranks) if count]
            yield from permutations(shares)


def group_of(plan: Plan, topology: Topology) -> Topology:
    """The group of a plan of one stage; the whole topology if it has one kind of device.

    Raises PlanError if no group begins at the plan's first device.
    """
    first = 0
    for group in topology.groups:
        if plan.stages[0].ranks_from == first:
            return group
        first += group.device_count
    raise PlanError(
        f"the plan's stage begins at device {plan.stages[0].ranks_from}, where no group of "
        f"{topology.name or 'the topology'} begins"
    )


def sends_ns(
    parts: Sequence[RankPart], rank_of: Sequence[int], crossing_bytes: FloatArray, efficiency: float
) -> FloatArray:
    """(stages, positions): ns of the transfer of a cut before the stage, one way, per microbatch.

    Both sides distribute the bytes over their devices.
    """
    times_ns = np.zeros((len(rank_of), len(crossing_bytes)))
    for stage, ranks in enumerate(pairwise(rank_of), start=1):
        sides = [parts[rank] for rank in ranks]
        if sides[0] is sides[1]:
            continue
        links = [part.link if len({p.group for p in sides}) == 1 else part.topology.uplink
                 for part in sides]  # fmt: skip
        ends = [(link, part.topology.device_count) for link, part in zip(links, sides, strict=True)
                if link is not None]  # fmt: skip
        rate = min(link.device_bytes_per_s * count for link, count in ends) * efficiency
        latency_ns = max(link.latency_ns for link, _ in ends)
        times_ns[stage] = latency_ns + crossing_bytes / rate * NS_PER_S
    return times_ns


def link_between(one: RankPart, other: RankPart) -> Link:
    """The link from a device of one rank to another rank."""
    if one.group == other.group:
        assert one.link is not None
        return one.link
    uplinks = [part.topology.uplink for part in (one, other)]
    return slowest(link for link in uplinks if link is not None)


def slowest(links: Iterable[Link]) -> Link:
    """A link with the least bandwidth and the longest latency of these links."""
    every = list(links)
    least = min(every, key=lambda link: link.device_bytes_per_s)
    return least.model_copy(update={"latency_ns": max(link.latency_ns for link in every)})
