"""PyTorch: a layout as DTensor placements, one for every dim of a DeviceMesh.

DTensor cuts a tensor dim mesh dim by mesh dim, from left to right, each time what is there into
chunks of ceil(length / ways). Where an axis lies behind one that comes later in the mesh, or behind
a sub-dim that is not cut up, its placement is a `_StridedShard`: the split factor says of how many
pieces each is cut. For even sub-dims this is exact, equal segments included:

    split factor of an axis = lengths, left at that point, of all that stands outside of it

Uneven chunks are tried the same way and compared, device by device, with DTensor's rule.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from meshwright.convert.grid import DeviceGrid
from meshwright.convert.normal import fits, normal, sub_dim
from meshwright.convert.placement import REPLICATE, DTensorLayout, Placement
from meshwright.convert.plain import padding_fault, stored_size
from meshwright.convert.runs import Runs, chunk_of_runs, runs_of_parts
from meshwright.schema import Axis, ConversionError, Dim, Layout, SubDim

Cut = tuple[Axis, int]  # an axis that shards the dim, and its split factor


def to_dtensor(layout: Layout, grid: DeviceGrid, *, name: str = "the tensor") -> DTensorLayout:
    """A layout as placements; ConversionError, naming the tensor, where there are none.

    A padded layout is that of the tensor with its padding, of equal chunks.
    """
    fits(layout, grid)
    found = {axis: Placement(kind="partial", reduction=how) for axis, how in layout.partial.items()}
    stored = []
    for position, dim in enumerate(normal(layout, grid).dims):
        why = _not_placed(dim, layout.padded)
        parts = _padded(dim.parts) if layout.padded else dim.parts
        if not why:
            cuts = _cuts(parts, grid)
            size = math.prod(part.size for part in parts)
            if _is_uneven(parts) and not _same(parts, cuts, size, grid):
                why = (
                    f"has chunks that differ from DTensor's, which cuts {size} "
                    f"{_shown(cuts, position)} in turn, each time in chunks of ceil(length / ways)"
                )
        if why:
            raise ConversionError(f"{name}: layout {layout}: dim {position} {why}")
        stored.append(stored_size(dim) if layout.padded else dim.size)
        for axis, factor in cuts:
            found[axis] = Placement(kind="shard", dim=position, split_factor=factor)
    shape = tuple(stored)
    return DTensorLayout(
        shape=shape,
        placements=tuple(found.get(axis, REPLICATE) for axis in grid.names),
        padded_from=None if shape == layout.shape else layout.shape,
    )


def from_dtensor(given: DTensorLayout, grid: DeviceGrid, *, name: str = "the tensor") -> Layout:
    """The layout that placements are, in normal form but for axes of size 1.

    Raises ConversionError where an axis would have to be in two places of a dim.
    """
    if len(given.placements) != len(grid.names):
        raise ConversionError(
            f"{name}: {len(given.placements)} placements for a mesh of {len(grid.names)} dims"
        )
    by_axis = dict(zip(grid.names, given.placements, strict=True))
    own = given.padded_from or given.shape
    dims = []
    for position, size in enumerate(given.shape):
        cuts = [
            (axis, placement.split_factor)
            for axis, placement in by_axis.items()
            if placement.dim == position
        ]
        for axis, factor in cuts:
            if factor > 1 and grid.size((axis,)) == 1:
                raise ConversionError(
                    f"{name}: a _StridedShard over {axis!r}, which has one device, splits nothing: "
                    "it is a Shard"
                )
        parts = _parts(cuts, size, grid)
        if parts is not None and given.padded_from is not None and _is_uneven(parts):
            parts = None
        if parts is not None and own[position] != size:
            parts = _unpadded(parts, own[position])
        if parts is None:
            raise ConversionError(
                f"{name}: dim {position} of {size} cut {_shown(cuts, position)} is no product of "
                "sub-dims that are each cut over axes of their own"
                + (f", padded from {own[position]}" if own[position] != size else "")
            )
        dims.append(Dim(parts=parts))
    return Layout(
        dims=tuple(dims),
        partial={
            axis: placement.reduction for axis, placement in by_axis.items() if placement.reduction
        },
        padded=given.padded_from is not None,
    )


def _not_placed(dim: Dim, padded: bool) -> str:
    if dim.segments:
        return (
            f"holds segments of the unequal lengths {list(dim.segments)}, each cut by itself: no "
            "placement says that (split the tensor there to convert its parts)"
        )
    return padding_fault(dim) if padded else ""


def _padded(parts: Sequence[SubDim]) -> tuple[SubDim, ...]:
    return tuple(SubDim(size=part.span or part.size, axes=part.axes) for part in parts)


def _unpadded(parts: Sequence[SubDim], size: int) -> tuple[SubDim, ...] | None:
    """Sub-dims of a padded dim with the padding as a span of the first; None where it is inside."""
    first, rest = parts[0], parts[1:]
    inner = math.prod(part.size for part in rest)
    if size % inner or not first.axes:
        return None
    return (SubDim(size=size // inner, axes=first.axes, span=first.size), *rest)


def _is_uneven(parts: Sequence[SubDim]) -> bool:
    return any(part.span or part.chunks for part in parts)


def _cuts(parts: Sequence[SubDim], grid: DeviceGrid) -> list[Cut]:
    """The axes of a dim in the order of the grid, each with its split factor."""
    place = {axis: k for k, axis in enumerate(grid.names)}
    found = {}
    outside: list[SubDim] = []
    for part in parts:
        for k, axis in enumerate(part.axes):
            free = math.prod(_left(own, place[axis], place, grid) for own in outside)
            later = [other for other in part.axes[:k] if place[other] > place[axis]]
            found[axis] = free * grid.size(later) if grid.size((axis,)) > 1 else 1
        outside.append(part)
    return sorted(found.items(), key=lambda cut: place[cut[0]])


def _left(part: SubDim, position: int, place: Mapping[Axis, int], grid: DeviceGrid) -> int:
    """What is left of a sub-dim when the axes before a position of the grid have cut it."""
    later = [axis for axis in part.axes if place[axis] > position]
    if len(later) == len(part.axes):
        return part.size
    return part.longest(grid.size(part.axes)) * grid.size(later)


def _same(parts: Sequence[SubDim], cuts: Sequence[Cut], size: int, grid: DeviceGrid) -> bool:
    """Whether every device holds what DTensor gives it."""
    return all(
        runs_of_parts(parts, grid, at) == _placed(cuts, size, grid, at)
        for at in _coordinates(cuts, grid)
    )


def _placed(cuts: Sequence[Cut], size: int, grid: DeviceGrid, at: Mapping[Axis, int]) -> Runs:
    runs: Runs = ((0, size),)
    for axis, factor in cuts:
        runs = chunk_of_runs(runs, ways=grid.size((axis,)), index=at[axis], split_factor=factor)
    return runs


def _coordinates(cuts: Sequence[Cut], grid: DeviceGrid) -> Iterator[dict[Axis, int]]:
    axes = [axis for axis, _ in cuts]
    for at in itertools.product(*(range(grid.size((axis,))) for axis in axes)):
        yield dict(zip(axes, at, strict=True))


def _parts(cuts: Sequence[Cut], size: int, grid: DeviceGrid) -> tuple[SubDim, ...] | None:
    """The sub-dims of a dim cut like this; None where there are none such.

    Nor where other split factors say the same, as some do that leave devices empty: one layout has
    one way to be said.
    """
    for parts in (_product(cuts, size, grid), _ordered(cuts, size, grid)):
        if (
            parts is not None
            and _cuts(parts, grid) == list(cuts)
            and (not _is_uneven(parts) or _same(parts, cuts, size, grid))
        ):
            return parts
    return None


def _product(cuts: Sequence[Cut], size: int, grid: DeviceGrid) -> tuple[SubDim, ...] | None:
    """Sub-dims found by looking for the place of every axis: behind `split factor` pieces.

    Where sizes do not divide this is a guess.
    """
    parts: list[tuple[int, list[Axis]]] = [(size, [])]
    for axis, factor in cuts:
        k = 0
        while True:
            length, axes = parts[k]
            left = -(-length // grid.size(axes))
            if k == len(parts) - 1 or factor % left:
                break
            factor //= left
            k += 1
        if factor == 1:
            axes.append(axis)
        elif left % factor or left == factor or length % grid.size(axes):
            return None
        else:
            parts[k : k + 1] = [
                (length * factor // left, axes),
                (left // factor, [axis]),
            ]
    return normal(
        Layout(dims=(Dim(parts=tuple(_nested(n, axes, grid) for n, axes in parts)),)), grid
    ).dims[0].parts  # fmt: skip


def _nested(size: int, axes: Sequence[Axis], grid: DeviceGrid) -> SubDim:
    """A sub-dim cut over axis after axis, each time in chunks of ceil(length / ways)."""
    chunks = [size]
    for axis in axes:
        ways = grid.size((axis,))
        chunks = [
            sum(b - a for a, b in chunk_of_runs(((0, n),), ways=ways, index=k, split_factor=1))
            for n in chunks
            for k in range(ways)
        ]
    return sub_dim(axes, chunks)


def _ordered(cuts: Sequence[Cut], size: int, grid: DeviceGrid) -> tuple[SubDim, ...] | None:
    """One sub-dim whose axes stand in the order that the split factors say, if they say one."""
    order: list[Axis] = []
    for axis, factor in reversed(cuts):
        outside = [grid.size(order[:k]) for k in range(len(order) + 1)]
        if factor not in outside:
            return None
        order.insert(outside.index(factor), axis)
    chunks = []
    before = 0
    for at in itertools.product(*(range(grid.size((axis,))) for axis in order)):
        runs = _placed(cuts, size, grid, dict(zip(order, at, strict=True)))
        if len(runs) > 1 or (runs and runs[0][0] != before):
            return None
        chunks.append(sum(stop - start for start, stop in runs))
        before += chunks[-1]
    return (sub_dim(order, chunks),) if before == size else None


def _shown(cuts: Sequence[Cut], dim: int) -> str:
    placements = [
        f"{axis}: {Placement(kind='shard', dim=dim, split_factor=factor)}" for axis, factor in cuts
    ]
    return "by " + (", ".join(placements) or "nothing")
