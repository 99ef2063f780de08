"""The steps of a plan on what one rank holds, over process groups.

slice, mask                  local: a part is kept, or stands where the sum takes it from
all_gather, all_to_all       every member puts its new part together from what the others hold
all_reduce, reduce_scatter   the sum or maximum of the members' parts, then sliced
permute                      every member sends what it holds, whole, to one other
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from meshwright.runtime.moves import Cause, Move
from meshwright.runtime.parts import from_parts, overlap, shape_of, to_parts, within
from meshwright.runtime.torch.record import Ran, Record
from meshwright.schema import Axis, Layout, Mesh, PlanError, Rank, Step
from meshwright.schema.rank_strategy import RankStage
from meshwright.schema.regions import Region, region

T = torch.Tensor
Names = frozenset[Axis]

_REDUCE = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}


@dataclass(frozen=True, slots=True)
class Members:
    """A group that this rank is in: its ranks on the mesh, in the world, and how to reach them."""

    axes: tuple[Axis, ...]
    own: Sequence[Rank]
    ranks: tuple[int, ...]
    handle: dist.ProcessGroup | None


class Collectives:
    """Runs steps for one rank of a stage. groups: of every set of axes that something runs over."""

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
        """This rank's group over each axis alone."""
        world = dist.group.WORLD
        assert world is not None
        return [self._groups[frozenset((axis.name,))] or world for axis in self.mesh.axes]

    def move(self, local: T, move: Move, cause: Cause | None = None) -> T:
        """What this rank holds after some steps."""
        before = move.before
        for step in move.steps:
            parts = to_parts(local, before, self.mesh, torch.cat)
            made = self._step(step, parts, before, move.tensor, cause or move.cause)
            local = from_parts(made, step.to, self.mesh, torch.cat)
            before = step.to
        return local

    def all_reduce(
        self, own: T, axes: Sequence[Axis], of: str, cause: Cause, how: str = "sum"
    ) -> T:
        """The sum or maximum over the members; the tensor itself where there is only one."""
        members = self._of(axes)
        if members is None:
            return own
        total = own.detach().clone(memory_format=torch.contiguous_format)
        self._note("all_reduce", members, total, of, cause)
        dist.all_reduce(total, _REDUCE[how], group=members.handle)
        return total

    def _of(self, axes: Sequence[Axis]) -> Members | None:
        names = frozenset(axis for axis in axes if self.mesh.size((axis,)) > 1)
        if not names:
            return None
        found = self._members.get(names)
        if found is None:
            ordered = tuple(axis for axis in self.mesh.names if axis in names)
            own = next(g for g in self.mesh.groups(ordered) if self.rank in g)
            ranks = tuple(self.first + rank for rank in own)
            found = Members(ordered, own, ranks, self._groups[names])
            self._members[names] = found
        return found

    def _note(self, kind: str, members: Members, whole: T, of: str, cause: Cause) -> None:
        count = whole.numel()
        ran = Ran(kind, members.axes, members.ranks, count, count * whole.element_size(), of, cause)
        self.record.ran.append(ran)

    def _step(self, step: Step, parts: T, before: Layout, of: str, cause: Cause) -> T:
        mesh, rank, after = self.mesh, self.rank, step.to
        held, wanted = region(before, mesh, rank), region(after, mesh, rank)
        if step.kind == "slice":
            return parts[within(wanted, held)].contiguous()
        if step.kind == "mask":
            return self._masked(step, parts, before, held, wanted)
        members = self._of(step.axes)
        if members is None:
            return parts
        regions = [(region(before, mesh, r), region(after, mesh, r)) for r in members.own]
        parts = parts.contiguous()
        if step.kind == "all_gather":
            return self._gathered(parts, regions, wanted, members, of, cause)
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
            sent = torch.stack([parts[within(target, held)] for _, target in regions])
            own = parts.new_empty(shape_of(wanted))
            how = _how(before, step.axes)
            dist.reduce_scatter_single(own, sent.flatten(0, 1), how, group=members.handle)
            return own
        if step.kind in ("all_to_all", "permute"):
            self._note(step.kind, members, parts, of, cause)
            sources = _senders(members, before, after, mesh) if step.kind == "permute" else None
            place = members.own.index(Rank(rank))
            return _exchanged(parts, held, wanted, regions, members, place, sources)
        raise PlanError(
            f"{of!r}: steps of the kind {step.kind} are not carried out; plan without gradients "
            "of rows and without dealt parameters"
        )

    def _gathered(
        self,
        parts: T,
        regions: Sequence[tuple[Region, Region]],
        wanted: Region,
        members: Members,
        of: str,
        cause: Cause,
    ) -> T:
        made = parts.new_empty(shape_of(wanted))
        self._note("all_gather", members, made, of, cause)
        got = parts.new_empty((len(regions), *parts.shape))
        dist.all_gather_single(got.flatten(0, 1), parts, group=members.handle)
        for own, (inside, _) in zip(got, regions, strict=True):
            common = overlap(inside, wanted)
            if common is not None:
                made[within(common, wanted)] = own[within(common, inside)]
        return made

    def _masked(self, step: Step, parts: T, before: Layout, held: Region, wanted: Region) -> T:
        made = parts.new_zeros(shape_of(wanted))
        split = {axis for dim in before.dims for axis in dim.axes}
        if not any(self.at[axis] for axis in step.axes if axis not in split):
            made[within(held, wanted)] = parts
        return made


def _rank_at(mesh: Mesh, at: Mapping[Axis, int]) -> int:
    rank = 0
    for axis in mesh.axes:
        rank = rank * axis.size + at[axis.name]
    return rank


def _how(before: Layout, axes: Sequence[Axis]) -> dist.ReduceOp.RedOpType:
    """Partial by what; gradients are summed whether their layout says so or not."""
    return _REDUCE[next((before.partial[a] for a in axes if a in before.partial), "sum")]


def _exchanged(
    parts: T,
    held: Region,
    wanted: Region,
    regions: Sequence[tuple[Region, Region]],
    members: Members,
    own_place: int,
    sources: Sequence[int] | None,
) -> T:
    """Every member gets from all others (or from its one source) what it wants of theirs."""
    sends, receives, places = [], [], []
    for place, (inside, target) in enumerate(regions):
        to = overlap(held, target) if sources is None or sources[place] == own_place else None
        sends.append(parts.new_empty(0) if to is None else parts[within(to, held)].flatten())
        come = overlap(inside, wanted) if sources is None or sources[own_place] == place else None
        places.append(come)
        receives.append(0 if come is None else torch.Size(shape_of(come)).numel())
    got = parts.new_empty(sum(receives))
    dist.all_to_all_single(
        got, torch.cat(sends), receives, [own.numel() for own in sends], group=members.handle
    )
    made = parts.new_empty(shape_of(wanted))
    for come, piece in zip(places, torch.split(got, receives), strict=True):
        if come is not None:
            made[within(come, wanted)] = piece.reshape(shape_of(come))
    return made


def _senders(members: Members, before: Layout, after: Layout, mesh: Mesh) -> list[int]:
    """For every member the place of the one whose part it gets; copies go in order."""
    holders: dict[tuple[Region, tuple[int, ...]], list[int]] = {}
    for place, rank in enumerate(members.own):
        holders.setdefault(_part(rank, before, mesh), []).append(place)
    return [holders[_part(rank, after, mesh)].pop(0) for rank in members.own]


def _part(rank: Rank, layout: Layout, mesh: Mesh) -> tuple[Region, tuple[int, ...]]:
    at = mesh.coordinates(rank)
    return region(layout, mesh, rank), tuple(at[a] for a in mesh.names if a in layout.partial)
