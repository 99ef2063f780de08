"""DTensor placements of a layout: one for every dim of a PyTorch DeviceMesh.

DTensor cuts a tensor dim mesh dim by mesh dim, from left to right. Each step cuts the current local
tensor into chunks of ceil(length / ways). An axis gets a `_StridedShard` placement where a major
axis of the same dim comes later in the mesh, or a major sub-dim is not fully cut. The split factor
is the number of pieces that the axis cuts. For even sub-dims, equal segments included, it is exact:

    split factor of an axis = product of the remaining lengths of the major sub-dims and axes

For uneven chunks the result is compared with DTensor's rule, device by device.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from meshwright.convert.axis_runs import Runs, chunk_of_runs, runs_of_parts
from meshwright.convert.grid import DeviceGrid
from meshwright.convert.normal import fits, normal, sub_dim
from meshwright.convert.placement import REPLICATE, DTensorLayout, Placement
from meshwright.convert.plain import padding_fault, stored_size
from meshwright.schema import Axis, ConversionError, Dim, Layout, SubDim

Cut = tuple[Axis, int]  # an axis that shards the dim, and its split factor


def to_dtensor(layout: Layout, grid: DeviceGrid, *, name: str = "the tensor") -> DTensorLayout:
    """The DTensor placements of a layout.

    A padded layout becomes the layout of the padded tensor, which has equal chunks.
    Raises ConversionError with the tensor's name where no placements express the layout.
    """
    fits(layout, grid)
    placements = {
        axis: Placement(kind="partial", reduction=how) for axis, how in layout.partial.items()
    }
    stored_sizes = []
    for position, dim in enumerate(normal(layout, grid).dims):
        fault = _placement_fault(dim, layout.padded)
        parts = _padded_parts(dim.parts) if layout.padded else dim.parts
        if not fault:
            cuts = _cuts(parts, grid)
            size = math.prod(part.size for part in parts)
            if _is_uneven(parts) and not _matches_dtensor(parts, cuts, size, grid):
                fault = (
                    f"has chunks that differ from DTensor's, which cuts {size} "
                    f"{_cuts_text(cuts, position)} in turn, each time in chunks of ceil(length / "
                    "ways)"
                )
        if fault:
            raise ConversionError(f"{name}: layout {layout}: dim {position} {fault}")
        stored_sizes.append(stored_size(dim) if layout.padded else dim.size)
        for axis, factor in cuts:
            placements[axis] = Placement(kind="shard", dim=position, split_factor=factor)
    shape = tuple(stored_sizes)
    return DTensorLayout(
        shape=shape,
        placements=tuple(placements.get(axis, REPLICATE) for axis in grid.names),
        padded_from=None if shape == layout.shape else layout.shape,
    )


def from_dtensor(tensor: DTensorLayout, grid: DeviceGrid, *, name: str = "the tensor") -> Layout:
    """The layout of DTensor placements, in normal form except for axes of size 1.

    Raises ConversionError where an axis would need two positions in a dim.
    """
    if len(tensor.placements) != len(grid.names):
        raise ConversionError(
            f"{name}: {len(tensor.placements)} placements for a mesh of {len(grid.names)} dims"
        )
    by_axis = dict(zip(grid.names, tensor.placements, strict=True))
    unpadded_shape = tensor.padded_from or tensor.shape
    dims = []
    for position, size in enumerate(tensor.shape):
        cuts = [
            (axis, placement.split_factor)
            for axis, placement in by_axis.items()
            if placement.dim == position
        ]
        for axis, factor in cuts:
            if factor > 1 and grid.size((axis,)) == 1:
                raise ConversionError(
                    f"{name}: a _StridedShard over {axis!r}, which has one device, splits nothing. "
                    "Use a Shard"
                )
        parts = _parts(cuts, size, grid)
        if parts is not None and tensor.padded_from is not None and _is_uneven(parts):
            parts = None
        if parts is not None and unpadded_shape[position] != size:
            parts = _unpadded_parts(parts, unpadded_shape[position])
        if parts is None:
            raise ConversionError(
                f"{name}: dim {position} of {size} cut {_cuts_text(cuts, position)} is no product "
                "of sub-dims that are each cut over separate axes"
                + (
                    f", padded from {unpadded_shape[position]}"
                    if unpadded_shape[position] != size
                    else ""
                )
            )
        dims.append(Dim(parts=parts))
    return Layout(
        dims=tuple(dims),
        partial={
            axis: placement.reduction for axis, placement in by_axis.items() if placement.reduction
        },
        padded=tensor.padded_from is not None,
    )


def _placement_fault(dim: Dim, padded: bool) -> str:
    if dim.segments:
        return (
            f"holds segments of the unequal lengths {list(dim.segments)}, each cut separately, "
            "which no placement expresses. Split the tensor at the segments to convert its parts"
        )
    return padding_fault(dim) if padded else ""


def _padded_parts(parts: Sequence[SubDim]) -> tuple[SubDim, ...]:
    return tuple(SubDim(size=part.span or part.size, axes=part.axes) for part in parts)


def _unpadded_parts(parts: Sequence[SubDim], size: int) -> tuple[SubDim, ...] | None:
    """Sub-dims of a padded dim, with the padding as a span of the first; None for inner padding."""
    first, rest = parts[0], parts[1:]
    inner = math.prod(part.size for part in rest)
    if size % inner or not first.axes:
        return None
    return (SubDim(size=size // inner, axes=first.axes, span=first.size), *rest)


def _is_uneven(parts: Sequence[SubDim]) -> bool:
    return any(part.span or part.chunks for part in parts)


def _cuts(parts: Sequence[SubDim], grid: DeviceGrid) -> list[Cut]:
    """The cuts of a dim in the order of the grid: axes with their split factors."""
    place = {axis: k for k, axis in enumerate(grid.names)}
    factors = {}
    outside: list[SubDim] = []
    for part in parts:
        for k, axis in enumerate(part.axes):
            free = math.prod(_local_length(major, place[axis], place, grid) for major in outside)
            later = [other for other in part.axes[:k] if place[other] > place[axis]]
            factors[axis] = free * grid.size(later) if grid.size((axis,)) > 1 else 1
        outside.append(part)
    return sorted(factors.items(), key=lambda cut: place[cut[0]])


def _local_length(part: SubDim, position: int, place: Mapping[Axis, int], grid: DeviceGrid) -> int:
    """The local length of a sub-dim after the axes before a position of the grid have cut it."""
    later = [axis for axis in part.axes if place[axis] > position]
    if len(later) == len(part.axes):
        return part.size
    return part.longest(grid.size(part.axes)) * grid.size(later)


def _matches_dtensor(
    parts: Sequence[SubDim], cuts: Sequence[Cut], size: int, grid: DeviceGrid
) -> bool:
    """Whether every device holds the elements that DTensor assigns to it."""
    return all(
        runs_of_parts(parts, grid, at) == _dtensor_runs(cuts, size, grid, at)
        for at in _coordinates(cuts, grid)
    )


def _dtensor_runs(cuts: Sequence[Cut], size: int, grid: DeviceGrid, at: Mapping[Axis, int]) -> Runs:
    runs: Runs = ((0, size),)
    for axis, factor in cuts:
        runs = chunk_of_runs(runs, ways=grid.size((axis,)), index=at[axis], split_factor=factor)
    return runs


def _coordinates(cuts: Sequence[Cut], grid: DeviceGrid) -> Iterator[dict[Axis, int]]:
    axes = [axis for axis, _ in cuts]
    for at in itertools.product(*(range(grid.size((axis,))) for axis in axes)):
        yield dict(zip(axes, at, strict=True))


def _parts(cuts: Sequence[Cut], size: int, grid: DeviceGrid) -> tuple[SubDim, ...] | None:
    """The sub-dims of a dim with these cuts; None where no sub-dims have them.

    Some split factors leave devices empty and describe the same layout as others. Only one of these
    notations is accepted, so that every layout has one notation.
    """
    for parts in (_product_parts(cuts, size, grid), _ordered_part(cuts, size, grid)):
        if (
            parts is not None
            and _cuts(parts, grid) == list(cuts)
            and (not _is_uneven(parts) or _matches_dtensor(parts, cuts, size, grid))
        ):
            return parts
    return None


def _product_parts(cuts: Sequence[Cut], size: int, grid: DeviceGrid) -> tuple[SubDim, ...] | None:
    """Sub-dims by position of the axes: each axis stands behind `split factor` pieces.

    The result is a candidate only where sizes do not divide.
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
        Layout(dims=(Dim(parts=tuple(_nested_part(n, axes, grid) for n, axes in parts)),)), grid
    ).dims[0].parts  # fmt: skip


def _nested_part(size: int, axes: Sequence[Axis], grid: DeviceGrid) -> SubDim:
    """The sub-dim cut axis by axis, each time in chunks of ceil(length / ways)."""
    chunks = [size]
    for axis in axes:
        ways = grid.size((axis,))
        chunks = [
            sum(b - a for a, b in chunk_of_runs(((0, n),), ways=ways, index=k, split_factor=1))
            for n in chunks
            for k in range(ways)
        ]
    return sub_dim(axes, chunks)


def _ordered_part(cuts: Sequence[Cut], size: int, grid: DeviceGrid) -> tuple[SubDim, ...] | None:
    """One sub-dim whose axes have the order of the split factors; None where these give none."""
    order: list[Axis] = []
    for axis, factor in reversed(cuts):
        outside = [grid.size(order[:k]) for k in range(len(order) + 1)]
        if factor not in outside:
            return None
        order.insert(outside.index(factor), axis)
    chunks = []
    before = 0
    for at in itertools.product(*(range(grid.size((axis,))) for axis in order)):
        runs = _dtensor_runs(cuts, size, grid, dict(zip(order, at, strict=True)))
        if len(runs) > 1 or (runs and runs[0][0] != before):
            return None
        chunks.append(sum(stop - start for start, stop in runs))
        before += chunks[-1]
    return (sub_dim(order, chunks),) if before == size else None


def _cuts_text(cuts: Sequence[Cut], dim: int) -> str:
    placements = [
        f"{axis}: {Placement(kind='shard', dim=dim, split_factor=factor)}" for axis, factor in cuts
    ]
    return "by " + (", ".join(placements) or "nothing")
