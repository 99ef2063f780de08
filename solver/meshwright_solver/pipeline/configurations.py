"""Pipeline configurations: the valid combinations of the numbers that a request leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from meshwright.schedules.kinds import check_schedule
from meshwright.schema import (
    InvalidInput,
    Pipeline,
    Request,
    RequestError,
    RequestPatch,
    ScheduleKind,
    step_batch,
)
from meshwright_solver.pipeline.layers import layer_begins
from meshwright_solver.pipeline.rank_placement import Placement, RankShare, placements
from meshwright_solver.pipeline.rank_topology import rank_counts, split
from meshwright_solver.pipeline.stage_graph import Anatomy

# gpipe never beats 1f1b, which has the same bubble and less memory
_TRIED: tuple[ScheduleKind, ...] = ("1f1b", "zb_h1", "interleaved_1f1b", "zb_v")
_MOST_VIRTUAL = 16  # chosen: of those that a search tries
_VIRTUAL = (2, 4)  # chosen: stages a rank of interleaved schedules of half a layer or less
_MOST_RANKS = 64  # chosen: more than any published configuration has
_MOST_ROUNDS = 32  # chosen: microbatches over ranks; beyond it a bubble is under 3 % of a step


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration: ranks, schedule, stages per rank and microbatches.

    cuts: of the user, as positions in `Anatomy.order`; None if the search decides. placement: of
    the ranks on the groups of a mixed cluster; empty on others. on: names of their devices.
    """

    ranks: int
    schedule: ScheduleKind
    stages_per_rank: int
    microbatches: int
    cuts: tuple[int, ...] | None = None
    placement: Placement = ()
    on: tuple[str, ...] = ()

    @property
    def schedule_terms(self) -> tuple[ScheduleKind, int, int, int]:
        """The arguments of `schedule` and `pace_of`."""
        return self.schedule, self.ranks, self.microbatches, self.stages_per_rank

    @property
    def shares(self) -> Placement:
        return self.placement or (RankShare(0, self.ranks),)

    @property
    def request_patch(self) -> RequestPatch | None:
        """The request patch that leaves only this configuration.

        None with a placement, which a request cannot state.
        """
        if self.placement:
            return None
        pipeline: dict[str, int | str | None] = {"ranks": self.ranks, "schedule": self.schedule}
        if self.stages_per_rank > 1:
            pipeline["stages_per_rank"] = self.stages_per_rank
        return {"pipeline": pipeline, "setup": {"microbatches": self.microbatches}}

    def __str__(self) -> str:
        virtual = f" of {self.stages_per_rank} stages" if self.stages_per_rank > 1 else ""
        where = [
            f"{share.ranks} on {name}" for share, name in zip(self.placement, self.on, strict=True)
        ]
        placed = f" ({', then '.join(where)})" if where else ""
        return (
            f"{self.schedule}, {self.ranks} pipeline ranks{virtual}{placed}, "
            f"{self.microbatches} microbatches"
        )


def configurations(request: Request, anatomy: Anatomy) -> Iterator[Configuration]:
    """Every configuration to estimate. Raises InvalidInput if a stated number is impossible."""
    wanted = request.pipeline
    cuts = _cuts(wanted.cuts, anatomy)
    placed = _rank_placements(request, min(_MOST_RANKS, len(anatomy.order)))
    names = [group.device.name for group in request.topology.groups]
    refused: list[InvalidInput] = []
    any_yielded = False
    layers = len(layer_begins(anatomy))
    for ranks, placement in placed:
        for microbatches in _microbatches(request, ranks):
            tried = _kinds(wanted, layers, ranks)
            for configuration in _of_ranks(
                request, ranks, microbatches, cuts, tried, len(anatomy.order), refused
            ):
                any_yielded = True
                on = tuple(names[share.group] for share in placement)
                yield replace(configuration, placement=placement, on=on)
    if any_yielded or (wanted.ranks is None and cuts is None):
        return
    if refused:
        raise refused[0]
    raise InvalidInput(
        f"{len(wanted.cuts)} cuts make {len(wanted.cuts) + 1} stages, but no requested schedule "
        "has so many on these devices",
        pointer="/pipeline/cuts",
    )


def _rank_placements(request: Request, most: int) -> list[tuple[int, Placement]]:
    """Numbers of ranks, each with its placement."""
    topology, wanted = request.topology, request.pipeline.ranks
    if not topology.beside:
        if wanted is not None:
            split(topology, wanted)
            return [(wanted, ())]
        return [(count, ()) for count in rank_counts(topology) if 1 < count <= most]
    every = list(placements(topology, most if wanted is None else max(most, wanted)))
    counted = [(sum(share.ranks for share in placement), placement) for placement in every]
    if wanted is None:
        return counted
    counts = sorted({ranks for ranks, _ in counted})
    if wanted not in counts:
        raise InvalidInput(
            f"{wanted} pipeline ranks cannot be equal parts of each group of "
            f"{topology.name or 'the topology'}. Use {', '.join(map(str, counts))}",
            pointer="/pipeline/ranks",
        )
    return [(ranks, placement) for ranks, placement in counted if ranks == wanted]


def _of_ranks(
    request: Request,
    ranks: int,
    microbatches: int,
    cuts: tuple[int, ...] | None,
    kinds: Sequence[tuple[ScheduleKind, tuple[int, ...]]],
    ops: int,
    refused: list[InvalidInput],
) -> Iterator[Configuration]:
    """The valid configurations of these numbers; errors of the others are added to `refused`."""
    wanted = request.pipeline
    for kind, counts in kinds:
        for count in counts:
            if cuts is not None and len(cuts) != ranks * count - 1:
                continue
            try:
                check_schedule(kind, ranks, microbatches, count)
            except InvalidInput as wrong:
                if wanted.schedule is not None and request.setup.microbatches is not None:
                    raise
                refused.append(wrong)
                continue
            if ranks * count > ops:
                refused.append(
                    InvalidInput(
                        f"{ranks * count} stages need as many ops; the graph has {ops} that are "
                        "no views and depend on a parameter",
                        pointer="/pipeline",
                    )
                )
                continue
            yield Configuration(ranks, kind, count, microbatches, cuts)


def _kinds(wanted: Pipeline, layers: int, ranks: int) -> list[tuple[ScheduleKind, tuple[int, ...]]]:
    """Schedules, each with its candidate numbers of stages per rank."""
    usual = {"interleaved_1f1b": virtual_counts(layers, ranks), "zb_v": (2,)}
    stated = None if wanted.stages_per_rank is None else (wanted.stages_per_rank,)
    kinds = _TRIED if wanted.schedule is None else (wanted.schedule,)
    return [(kind, stated or usual.get(kind, (1,))) for kind in kinds]


def virtual_counts(layers: int, ranks: int) -> tuple[int, ...]:
    """Candidate numbers of stages per rank of interleaved schedules.

    For each number of layers per stage it is the fewest stages that hold all layers; 2 and 4 if a
    rank has one layer.
    """
    counts = {-(-layers // (ranks * each)) for each in range(1, layers // ranks + 1)}
    return tuple(sorted(count for count in counts if 1 < count <= _MOST_VIRTUAL)) or _VIRTUAL


def _microbatches(request: Request, ranks: int) -> list[int]:
    """The number in the setup, or multiples of the ranks that divide the batch, about doubling."""
    if request.setup.microbatches is not None:
        return [request.setup.microbatches]
    batch = step_batch(request.graph, request.setup) or 1
    most = min(batch, _MOST_ROUNDS * ranks)
    divisors = [count for count in range(1, most + 1) if batch % count == 0]
    useful = [count for count in divisors if count % ranks == 0]
    if not useful:
        # the fewest that keep all ranks busy; at most one sample each
        useful = [count for count in range(ranks, batch + 1) if batch % count == 0] or divisors[-1:]
    doubling = useful[:1]
    for count in useful[1:]:
        if count >= 2 * doubling[-1]:
            doubling.append(count)
    return doubling


def _cuts(names: tuple[str, ...], anatomy: Anatomy) -> tuple[int, ...] | None:
    if not names:
        return None
    for place, name in enumerate(names):
        if name not in anatomy.place:
            raise RequestError(
                f"no stage can begin with {name!r}: the graph has no such op, or it is a view or "
                "depends on no parameter, so every stage has a copy",
                pointer=f"/pipeline/cuts/{place}",
            )
    cuts = tuple(anatomy.place[name] for name in names)
    if list(cuts) != sorted(set(cuts)) or cuts[0] == 0:
        raise RequestError(
            "the cuts are not in order. List the first op of every stage but the first, in the "
            "order in which they run",
            pointer="/pipeline/cuts",
        )
    return cuts
