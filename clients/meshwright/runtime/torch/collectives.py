"""Redistribution steps on local shards, over process groups.

slice, mask                  local: a part of the shard, or zeros except on the first rank
all_gather, all_to_all       every member assembles its new shard from those of the others
all_reduce, reduce_scatter   the sum or maximum of the members' shards, then sliced
permute                      every member sends its whole shard to one other
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from meshwright.runtime.local_slices import from_parts, overlap, shape_of, to_parts, within
from meshwright.runtime.redistribution_steps import Cause, LayoutChange
from meshwright.runtime.torch.collective_log import LoggedCollective, Record
from meshwright.schema import Axis, Layout, Mesh, PlanError, Rank, Step
from meshwright.schema.rank_strategy import RankStage
from meshwright.schema.regions import Region, region

T = torch.Tensor
Names = frozenset[Axis]

_REDUCE = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}


@dataclass(frozen=True, slots=True)
class Members:
    """A process group of this rank: its ranks on the mesh and in the world, and its handle."""

    axes: tuple[Axis, ...]
    own: Sequence[Rank]
    ranks: tuple[int, ...]
    handle: dist.ProcessGroup | None


class TorchCollectives:
    """The steps of one rank of a stage. `groups` are the process groups of each set of axes."""

    def __init__(
        self,
        stage: RankStage,
        groups: Mapping[Names, dist.ProcessGroup | None],
        record: Record,
    ) -> None:
        self.mesh: Mesh = stage.planned.mesh
        self.at = stage.coordinates
        self.first = stage.planned.ranks_from
        self.rank = _rank_at(self.mesh, self.at)
        self._groups = groups
        self._members: dict[Names, Members] = {}
        self.record = record

    def of_axes(self) -> list[dist.ProcessGroup]:
        """This rank's process group over each single axis."""
        world = dist.group.WORLD
        assert world is not None
        return [self._groups[frozenset((axis.name,))] or world for axis in self.mesh.axes]

    def move(self, local: T, move: LayoutChange, cause: Cause | None = None) -> T:
        """The local shard after some steps."""
        before = move.before
        for step in move.steps:
            parts = to_parts(local, before, self.mesh, torch.cat)
            parts = self._step(step, parts, before, move.tensor, cause or move.cause)
            local = from_parts(parts, step.to, self.mesh, torch.cat)
            before = step.to
        return local

    def part(self, axes: Sequence[Axis]) -> int:
        """The index of this rank among the parts over these axes, the first slowest."""
        index = 0
        for axis in axes:
            index = index * self.mesh.size((axis,)) + self.at[axis]
        return index

    def all_reduce(
        self, local: T, axes: Sequence[Axis], of: str, cause: Cause, how: str = "sum"
    ) -> T:
        """The sum or maximum over the members; the tensor itself if there is only one."""
        members = self._of(axes)
        if members is None:
            return local
        total = local.detach().clone(memory_format=torch.contiguous_format)
        self._note("all_reduce", members, total, of, cause)
        dist.all_reduce(total, _REDUCE[how], group=members.handle)
        return total

    def _of(self, axes: Sequence[Axis]) -> Members | None:
        names = frozenset(axis for axis in axes if self.mesh.size((axis,)) > 1)
        if not names:
            return None
        members = self._members.get(names)
        if members is None:
            ordered = tuple(axis for axis in self.mesh.names if axis in names)
            group = next(g for g in self.mesh.groups(ordered) if self.rank in g)
            ranks = tuple(self.first + rank for rank in group)
            members = Members(ordered, group, ranks, self._groups[names])
            self._members[names] = members
        return members

    def _note(self, kind: str, members: Members, whole: T, of: str, cause: Cause) -> None:
        count = whole.numel()
        collective = LoggedCollective(
            kind, members.axes, members.ranks, count, count * whole.element_size(), of, cause
        )
        self.record.ran.append(collective)

    def _step(self, step: Step, parts: T, before: Layout, of: str, cause: Cause) -> T:
        mesh, rank, after = self.mesh, self.rank, step.to
        held, wanted = region(before, mesh, rank), region(after, mesh, rank)
        if step.kind == "slice":
            return parts[within(wanted, held)].contiguous()
        if step.kind == "mask":
            return self._mask(step, parts, before, held, wanted)
        members = self._of(step.axes)
        if members is None:
            return parts
        regions = [(region(before, mesh, r), region(after, mesh, r)) for r in members.own]
        parts = parts.contiguous()
        if step.kind == "all_gather":
            return self._all_gather(parts, regions, wanted, members, of, cause)
        if step.kind == "all_reduce":
            self._note(step.kind, members, parts, of, cause)
            total = parts.clone()
            dist.all_reduce(total, _how(before, step.axes), group=members.handle)
            return total
        if step.kind == "reduce_scatter":
            if any(overlap(target, held) != target for _, target in regions):
                raise PlanError(
                    f"{of!r}: a reduce_scatter over {', '.join(step.axes)} to {after} needs "
                    "parts that its group does not hold"
                )
            self._note(step.kind, members, parts, of, cause)
            sends = torch.stack([parts[within(target, held)] for _, target in regions])
            result = parts.new_empty(shape_of(wanted))
            how = _how(before, step.axes)
            dist.reduce_scatter_single(result, sends.flatten(0, 1), how, group=members.handle)
            return result
        if step.kind in ("all_to_all", "permute"):
            self._note(step.kind, members, parts, of, cause)
            sources = _senders(members, before, after, mesh) if step.kind == "permute" else None
            place = members.own.index(Rank(rank))
            return _exchange(parts, held, wanted, regions, members, place, sources)
        raise PlanError(
            f"{of!r}: the runtime does not support steps of the kind {step.kind}. Plan without "
            "sparse gradients and without whole parameters on owners"
        )

    def _all_gather(
        self,
        parts: T,
        regions: Sequence[tuple[Region, Region]],
        wanted: Region,
        members: Members,
        of: str,
        cause: Cause,
    ) -> T:
        result = parts.new_empty(shape_of(wanted))
        self._note("all_gather", members, result, of, cause)
        shards = parts.new_empty((len(regions), *parts.shape))
        dist.all_gather_single(shards.flatten(0, 1), parts, group=members.handle)
        for shard, (inside, _) in zip(shards, regions, strict=True):
            common = overlap(inside, wanted)
            if common is not None:
                result[within(common, wanted)] = shard[within(common, inside)]
        return result

    def _mask(self, step: Step, parts: T, before: Layout, held: Region, wanted: Region) -> T:
        result = parts.new_zeros(shape_of(wanted))
        split = {axis for dim in before.dims for axis in dim.axes}
        if not any(self.at[axis] for axis in step.axes if axis not in split):
            result[within(held, wanted)] = parts
        return result


def _rank_at(mesh: Mesh, at: Mapping[Axis, int]) -> int:
    rank = 0
    for axis in mesh.axes:
        rank = rank * axis.size + at[axis.name]
    return rank


def _how(before: Layout, axes: Sequence[Axis]) -> dist.ReduceOp.RedOpType:
    """The pending reduction; a sum for gradients, whose layout may not state it."""
    return _REDUCE[next((before.partial[a] for a in axes if a in before.partial), "sum")]


def _exchange(
    parts: T,
    held: Region,
    wanted: Region,
    regions: Sequence[tuple[Region, Region]],
    members: Members,
    local_place: int,
    sources: Sequence[int] | None,
) -> T:
    """An all-to-all: every member receives its pieces from all others, or from its one source."""
    sends, receives, places = [], [], []
    for place, (inside, target) in enumerate(regions):
        to = overlap(held, target) if sources is None or sources[place] == local_place else None
        sends.append(parts.new_empty(0) if to is None else parts[within(to, held)].flatten())
        box = overlap(inside, wanted) if sources is None or sources[local_place] == place else None
        places.append(box)
        receives.append(0 if box is None else torch.Size(shape_of(box)).numel())
    buffer = parts.new_empty(sum(receives))
    sizes = [piece.numel() for piece in sends]
    dist.all_to_all_single(buffer, torch.cat(sends), receives, sizes, group=members.handle)
    result = parts.new_empty(shape_of(wanted))
    for box, piece in zip(places, torch.split(buffer, receives), strict=True):
        if box is not None:
            result[within(box, wanted)] = piece.reshape(shape_of(box))
    return result


def _senders(members: Members, before: Layout, after: Layout, mesh: Mesh) -> list[int]:
    """The place of the sender for every member. Replicas are matched in order."""
    holders: dict[tuple[Region, tuple[int, ...]], list[int]] = {}
    for place, rank in enumerate(members.own):
        holders.setdefault(_part(rank, before, mesh), []).append(place)
    return [holders[_part(rank, after, mesh)].pop(0) for rank in members.own]


def _part(rank: Rank, layout: Layout, mesh: Mesh) -> tuple[Region, tuple[int, ...]]:
    at = mesh.coordinates(rank)
    return region(layout, mesh, rank), tuple(at[a] for a in mesh.names if a in layout.partial)
