"""Collectives on shards: the steps of a plan, each among the members of its groups only.

slice, all_gather, all_to_all   every device assembles its new region from the regions of the
                                members of its group; a region that no member holds is an error
all_reduce, reduce_scatter      the sum or maximum of the members' shards, then the slice
sparse_all_reduce               the members' ids and rows; each row is added at its id
mask                            the first member keeps a replicated value, a shard stays in place,
                                all else becomes the neutral element; the reduction over the group
                                gives the value again
permute                         every member sends its whole shard to one other member

Chunks of a sub-dim that its axes do not divide are unequal, and are sent so. In a padded layout the
step works on the span instead: padding fills up a sub-dim before the slice and is cut off after the
gather. All members then send and receive equal shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from meshwright.schema import Axis, Layout, Mesh, Rank
from meshwright.schema.regions import Region, chunks_of, region, stored_shape
from meshwright_solver.verification.execution.shards import (
    Array,
    Shards,
    neutral,
    reduce_parts,
    reduction_of,
    window,
)


class StepError(Exception):
    """A step does not give the layout that the plan states."""


def run_step(
    kind: str, axes: Sequence[Axis], shards: Shards, before: Layout, after: Layout, mesh: Mesh
) -> Shards:
    """All devices' shards after one step; StepError where it does not give the layout `after`."""
    _check_kind(kind, axes, before, after)
    if kind == "permute" and _ways_by_place(before, mesh) != _ways_by_place(after, mesh):
        raise StepError(f"the parts of {after} are not those of {before} in other places")
    held, wanted, shards = stretches(before, after, shards, mesh)
    result: list[Array | None] = [None] * mesh.device_count
    for group in mesh.groups(axes):
        if kind == "permute":
            senders = _senders(group, (before, held), (after, wanted), mesh)
            for rank, sender in zip(group, senders, strict=True):
                result[rank] = shards[sender].copy()
            continue
        for rank in group:
            result[rank] = _shard_after(
                rank, kind, axes, group, shards, (before, after), held, wanted, mesh
            )
    trimmed = window(tuple((0, length) for length in stored_shape(after, mesh)))
    return [shard[trimmed] for shard in result if shard is not None]


def stretches(
    before: Layout, after: Layout, shards: Shards, mesh: Mesh
) -> tuple[list[Region], list[Region], Shards]:
    """Every device's region before a step, its region after it, and its shard.

    Padding fills up the regions and shards where it takes part in the step.
    """
    spans = _spans(before, after)
    held = [_stretch(before, spans, mesh, rank) for rank in range(mesh.device_count)]
    wanted = [_stretch(after, spans, mesh, rank) for rank in range(mesh.device_count)]
    if spans:
        shards = [_pad(shard, inside) for shard, inside in zip(shards, held, strict=True)]
    return held, wanted, shards


def _spans(before: Layout, after: Layout) -> Mapping[int, int]:
    """The spans of the sub-dims whose padding takes part in a step, by sub-dim."""
    spans: dict[int, int] = {}
    padded = set()
    for layout in (before, after):
        for k, part in enumerate(part for dim in layout.dims for part in dim.parts):
            if part.span is None:
                continue
            padded.add(layout.padded)
            if spans.setdefault(k, part.span) != part.span:
                raise StepError(f"the chunks of {before} and {after} do not meet")
    if len(padded) > 1:
        raise StepError(f"of {before} and {after} one alone is padded")
    return spans if True in padded else {}


def _stretch(layout: Layout, spans: Mapping[int, int], mesh: Mesh, rank: int) -> Region:
    """The region of a device; in sub-dims with a span, its equal share of the span."""
    if not spans:
        return region(layout, mesh, rank)
    intervals = []
    for k, (part, index, ways) in enumerate(chunks_of(layout, mesh, rank)):
        if k in spans:
            length = spans[k] // ways
            intervals.append((index * length, (index + 1) * length))
        else:
            intervals.append(part.chunk(index, ways))
    return tuple(intervals)


def _pad(shard: Array, inside: Region) -> Array:
    filled = np.zeros([stop - start for start, stop in inside], dtype=shard.dtype)
    filled[tuple(slice(0, length) for length in shard.shape)] = shard
    return filled


# the places of a step's axes before and after it: sub-dims, partial or nowhere; "" is any place
_PLACES = {
    "all_gather": ("dims", "nowhere"),
    "reduce_scatter": ("partial", "dims"),
    "all_reduce": ("partial", "nowhere"),
    "sparse_all_reduce": ("partial", "nowhere"),
    "all_to_all": ("dims", "dims"),
    "permute": ("", ""),
    "slice": ("nowhere", "dims"),
    "mask": ("", "partial"),
}


def _check_kind(kind: str, axes: Sequence[Axis], before: Layout, after: Layout) -> None:
    """Check that a step changes no axes but its own, and these only as its kind allows."""
    if kind not in _PLACES:
        raise StepError(f"there is no step {kind!r}")
    wanted = _PLACES[kind]
    for axis in {*_axes(before), *_axes(after), *axes}:
        was, now = _place(before, axis), _place(after, axis)
        if axis not in axes:
            if was != now:
                raise StepError(f"{kind} over {', '.join(axes)} changes axis {axis!r} too")
            continue
        kinds = was.split(" ")[0], now.split(" ")[0]
        if any(
            expected not in ("", actual) for expected, actual in zip(wanted, kinds, strict=True)
        ):
            raise StepError(f"{kind} over {', '.join(axes)} from {before} does not give {after}")
    if kind == "all_to_all" and all(_place(before, axis) == _place(after, axis) for axis in axes):
        raise StepError(f"{kind} over {', '.join(axes)} from {before} does not give {after}")


def _axes(layout: Layout) -> set[Axis]:
    return {*layout.partial, *(axis for dim in layout.dims for axis in dim.axes)}


def _place(layout: Layout, axis: Axis) -> str:
    if axis in layout.partial:
        return f"partial {layout.partial[axis]}"
    for d, dim in enumerate(layout.dims):
        for p, part in enumerate(dim.parts):
            if axis in part.axes:
                return f"dims {d} {p}"
    return "nowhere"


def _ways_by_place(layout: Layout, mesh: Mesh) -> dict[str, int]:
    """The number of parts into which each place is cut."""
    ways: dict[str, int] = {}
    for axis in mesh.axes:
        place = _place(layout, axis.name)
        if place != "nowhere" and axis.size > 1:
            ways[place] = ways.get(place, 1) * axis.size
    return ways


def _senders(
    group: Sequence[Rank],
    before: tuple[Layout, Sequence[Region]],
    after: tuple[Layout, Sequence[Region]],
    mesh: Mesh,
) -> list[Rank]:
    """The sender for every member; each member sends to one other, replicas in their order."""
    holders: dict[tuple[Region, int], list[Rank]] = {}
    for rank in group:
        holders.setdefault(_part(rank, *before, mesh), []).append(rank)
    senders = []
    for rank in group:
        candidates = holders.get(_part(rank, *after, mesh))
        if not candidates:
            raise StepError(f"permute: no member is left that holds what device {rank} needs")
        senders.append(candidates.pop(0))
    return senders


def _part(rank: Rank, layout: Layout, regions: Sequence[Region], mesh: Mesh) -> tuple[Region, int]:
    """The region of a device, and the index of its partial value."""
    at = mesh.coordinates(rank)
    index = 0
    for axis in mesh.axes:
        if axis.name in layout.partial:
            index = index * axis.size + at[axis.name]
    return regions[rank], index


def _shard_after(
    rank: Rank,
    kind: str,
    axes: Sequence[Axis],
    group: Sequence[Rank],
    shards: Shards,
    layouts: tuple[Layout, Layout],
    held: Sequence[Region],
    wanted: Sequence[Region],
    mesh: Mesh,
) -> Array:
    before, after = layouts
    target, source = wanted[rank], held[rank]
    if kind == "sparse_all_reduce":
        if any(held[other] != source for other in group):
            raise StepError(f"{kind} over {', '.join(axes)} adds rows of different parts")
        rows = prod(shards[rank].shape[: len(before.dims[0].parts)])
        return _sum_of_rows([in_rows(shards[other], rows) for other in group], shards[rank], rows)
    if kind in ("all_reduce", "reduce_scatter"):
        if any(held[other] != source for other in group):
            raise StepError(f"{kind} over {', '.join(axes)} adds shards of different parts")
        total = reduce_parts([shards[other] for other in group], reduction_of(before))
        return _cut(total, source, target, kind)
    if kind == "mask":
        shape = [stop - start for start, stop in target]
        zero = np.full(shape, neutral(reduction_of(after), shards[rank].dtype))
        split = {axis for dim in before.dims for axis in dim.axes}
        at = mesh.coordinates(rank)
        if any(at[axis] for axis in axes if axis not in split):
            return zero
        paste(zero, target, shards[rank], source)
        return zero
    return _gather(rank, kind, axes, group, shards, held, target)


def in_rows(shard: Array, rows: int) -> tuple[Array, Array]:
    """A gradient as ids and rows, the rows of zeros left out."""
    flat = shard.reshape(rows, -1)
    ids = np.flatnonzero((flat != 0).any(axis=1))
    return ids, flat[ids]


def _sum_of_rows(sparse: Sequence[tuple[Array, Array]], like: Array, rows: int) -> Array:
    ids = np.concatenate([ids for ids, _ in sparse])
    total = np.zeros((rows, like.size // rows if rows else 0), dtype=like.dtype)
    np.add.at(total, ids, np.concatenate([values for _, values in sparse]))
    return total.reshape(like.shape)


def _gather(
    rank: Rank,
    kind: str,
    axes: Sequence[Axis],
    group: Sequence[Rank],
    shards: Shards,
    held: Sequence[Region],
    target: Region,
) -> Array:
    members = [rank] if kind == "slice" else group
    gathered = np.zeros([stop - start for start, stop in target], dtype=shards[rank].dtype)
    covered = np.zeros(gathered.shape, dtype=np.bool_)
    for other in members:
        paste(gathered, target, shards[other], held[other])
        paste(covered, target, np.ones(shards[other].shape, dtype=np.bool_), held[other])
    if not covered.all():
        raise StepError(
            f"{kind} over {', '.join(axes)}: device {rank} needs parts that no member of its "
            "group holds"
        )
    return gathered


def _cut(array: Array, source: Region, target: Region, kind: str) -> Array:
    part = np.zeros([stop - start for start, stop in target], dtype=array.dtype)
    if any(a < c or b > d for (a, b), (c, d) in zip(target, source, strict=True)):
        raise StepError(f"{kind} cannot give a part that its group does not hold")
    paste(part, target, array, source)
    return part


def paste(target_array: Array, target: Region, source: Array, inside: Region) -> None:
    """Copy the intersection of two regions from `source` to `target_array`.

    target, inside: the regions of `target_array` and of `source`.
    """
    into, out_of = [], []
    for (a, b), (c, d) in zip(target, inside, strict=True):
        start, stop = max(a, c), min(b, d)
        if start >= stop:
            return
        into.append(slice(start - a, stop - a))
        out_of.append(slice(start - c, stop - c))
    target_array[tuple(into)] = source[tuple(out_of)]
