"""Collectives on shards: each step of a plan, done by the members of its groups alone.

slice, all_gather, all_to_all   every device puts its new region together from what the members
                                of its group hold; what no member holds is an error
all_reduce, reduce_scatter      the sum or maximum of the members' shards, then sliced
sparse_all_reduce               the members' ids and rows, each row added where its id says
mask                            a replicated value stays on the first member, a shard stays where
                                it is; the rest has nothing to add: the sum (or maximum) over the
                                group is the value
permute                         every member sends what it holds, whole, to one other

Chunks of a sub-dim that its axes do not divide are unequal, and are sent so. Where a layout is
padded the step works on stretches of the span instead: a whole sub-dim is filled up with zeros
before it is cut and trimmed after it is gathered, and all members send and receive equal shapes.
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
    reduced,
    reduction_of,
    window,
)


class StepError(Exception):
    """A step cannot give the layout that the plan says it gives."""


def run_step(
    kind: str, axes: Sequence[Axis], shards: Shards, before: Layout, after: Layout, mesh: Mesh
) -> Shards:
    """All devices' shards after one step; StepError where it is not the step that it says."""
    _check_kind(kind, axes, before, after)
    if kind == "permute" and _cuts(before, mesh) != _cuts(after, mesh):
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
            result[rank] = _on(rank, kind, axes, group, shards, (before, after), held, wanted, mesh)
    trimmed = window(tuple((0, length) for length in stored_shape(after, mesh)))
    return [own[trimmed] for own in result if own is not None]


def stretches(
    before: Layout, after: Layout, shards: Shards, mesh: Mesh
) -> tuple[list[Region], list[Region], Shards]:
    """What every device holds before a step and after it, and its shards, filled up where padding
    takes part in the step."""
    spans = _spans(before, after)
    held = [_stretch(before, spans, mesh, rank) for rank in range(mesh.device_count)]
    wanted = [_stretch(after, spans, mesh, rank) for rank in range(mesh.device_count)]
    if spans:
        shards = [_filled(own, inside) for own, inside in zip(shards, held, strict=True)]
    return held, wanted, shards


def _spans(before: Layout, after: Layout) -> Mapping[int, int]:
    """Sub-dims whose padding takes part in a step, and their spans."""
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
    """What a device holds of every sub-dim; of those with a span its equal share of that."""
    if not spans:
        return region(layout, mesh, rank)
    found = []
    for k, (part, index, ways) in enumerate(chunks_of(layout, mesh, rank)):
        if k in spans:
            length = spans[k] // ways
            found.append((index * length, (index + 1) * length))
        else:
            found.append(part.chunk(index, ways))
    return tuple(found)


def _filled(own: Array, inside: Region) -> Array:
    filled = np.zeros([stop - start for start, stop in inside], dtype=own.dtype)
    filled[tuple(slice(0, length) for length in own.shape)] = own
    return filled


# where the axes of a step lie before and after it: on sub-dims, partial, or nowhere
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
    """A step may change nothing but its own axes, and these only as its kind does."""
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
        if any(right not in ("", found) for right, found in zip(wanted, kinds, strict=True)):
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


def _cuts(layout: Layout, mesh: Mesh) -> dict[str, int]:
    """In how many parts every place is cut."""
    found: dict[str, int] = {}
    for axis in mesh.axes:
        place = _place(layout, axis.name)
        if place != "nowhere" and axis.size > 1:
            found[place] = found.get(place, 1) * axis.size
    return found


def _senders(
    group: Sequence[Rank],
    before: tuple[Layout, Sequence[Region]],
    after: tuple[Layout, Sequence[Region]],
    mesh: Mesh,
) -> list[Rank]:
    """For every member the one whose part it gets: each sends to one, copies in order."""
    holders: dict[tuple[Region, int], list[Rank]] = {}
    for rank in group:
        holders.setdefault(_part(rank, *before, mesh), []).append(rank)
    found = []
    for rank in group:
        left = holders.get(_part(rank, *after, mesh))
        if not left:
            raise StepError(f"permute: no member is left that holds what device {rank} needs")
        found.append(left.pop(0))
    return found


def _part(rank: Rank, layout: Layout, regions: Sequence[Region], mesh: Mesh) -> tuple[Region, int]:
    """What a device holds: a region, and which of the partial values there."""
    at = mesh.coordinates(rank)
    index = 0
    for axis in mesh.axes:
        if axis.name in layout.partial:
            index = index * axis.size + at[axis.name]
    return regions[rank], index


def _on(
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
    target, own = wanted[rank], held[rank]
    if kind == "sparse_all_reduce":
        if any(held[other] != own for other in group):
            raise StepError(f"{kind} over {', '.join(axes)} adds rows of different parts")
        rows = prod(shards[rank].shape[: len(before.dims[0].parts)])
        return _added([in_rows(shards[other], rows) for other in group], shards[rank], rows)
    if kind in ("all_reduce", "reduce_scatter"):
        if any(held[other] != own for other in group):
            raise StepError(f"{kind} over {', '.join(axes)} adds shards of different parts")
        total = reduced([shards[other] for other in group], reduction_of(before))
        return _cut(total, own, target, kind)
    if kind == "mask":
        shape = [stop - start for start, stop in target]
        zero = np.full(shape, neutral(reduction_of(after), shards[rank].dtype))
        split = {axis for dim in before.dims for axis in dim.axes}
        at = mesh.coordinates(rank)
        if any(at[axis] for axis in axes if axis not in split):
            return zero
        paste(zero, target, shards[rank], own)
        return zero
    return _gathered(rank, kind, axes, group, shards, held, target)


def in_rows(shard: Array, rows: int) -> tuple[Array, Array]:
    """A gradient of so many rows as ids and rows of those that are not zero."""
    flat = shard.reshape(rows, -1)
    ids = np.flatnonzero((flat != 0).any(axis=1))
    return ids, flat[ids]


def _added(own: Sequence[tuple[Array, Array]], like: Array, rows: int) -> Array:
    ids = np.concatenate([ids for ids, _ in own])
    made = np.zeros((rows, like.size // rows if rows else 0), dtype=like.dtype)
    np.add.at(made, ids, np.concatenate([values for _, values in own]))
    return made.reshape(like.shape)


def _gathered(
    rank: Rank,
    kind: str,
    axes: Sequence[Axis],
    group: Sequence[Rank],
    shards: Shards,
    held: Sequence[Region],
    target: Region,
) -> Array:
    members = [rank] if kind == "slice" else group
    made = np.zeros([stop - start for start, stop in target], dtype=shards[rank].dtype)
    covered = np.zeros(made.shape, dtype=np.bool_)
    for other in members:
        paste(made, target, shards[other], held[other])
        paste(covered, target, np.ones(shards[other].shape, dtype=np.bool_), held[other])
    if not covered.all():
        raise StepError(
            f"{kind} over {', '.join(axes)}: device {rank} needs parts that no member of its "
            "group holds"
        )
    return made


def _cut(array: Array, own: Region, target: Region, kind: str) -> Array:
    made = np.zeros([stop - start for start, stop in target], dtype=array.dtype)
    if any(a < c or b > d for (a, b), (c, d) in zip(target, own, strict=True)):
        raise StepError(f"{kind} cannot give a part that its group does not hold")
    paste(made, target, array, own)
    return made


def paste(made: Array, target: Region, source: Array, inside: Region) -> None:
    """Copy what `source` (a region) and `made` (a region) have in common."""
    into, out_of = [], []
    for (a, b), (c, d) in zip(target, inside, strict=True):
        start, stop = max(a, c), min(b, d)
        if start >= stop:
            return
        into.append(slice(start - a, stop - a))
        out_of.append(slice(start - c, stop - c))
    made[tuple(into)] = source[tuple(out_of)]
