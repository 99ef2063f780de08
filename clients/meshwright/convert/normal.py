"""Normal form of layouts: one notation per assignment of elements to devices.

Several notations describe the same assignment: `(2@a 4@b)` equals `8@a@b`, and three equal
segments with the axis on their common sub-dim equal `(3 n@a)`. The normal form has the fewest
sub-dims: no sub-dim can be merged with the next. Axes of size 1 split nothing and stay in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.convert.grid import DeviceGrid
from meshwright.schema import Axis, ConversionError, Dim, Layout, LayoutError, SubDim


def normal(layout: Layout, grid: DeviceGrid) -> Layout:
    """The normal form of a layout; LayoutError where it does not fit the grid."""
    dims = tuple(normal_dim(dim, grid, layout.padded) for dim in layout.dims)
    uneven = any(part.span or part.chunks for dim in dims for part in dim.parts)
    return Layout(dims=dims, partial=layout.partial, padded=layout.padded and uneven)


def normal_dim(dim: Dim, grid: DeviceGrid, padded: bool) -> Dim:
    """The normal form of one dim."""
    parts = list(dim.parts)
    for part in parts:
        part.longest(grid.size(part.axes))
    if not dim.segments:
        return Dim(parts=_merge_all(parts, grid, padded))
    common, last = parts[:-1], parts[-1:]
    if all(grid.size(part.axes) == 1 for part in parts):
        return Dim(parts=(SubDim(size=dim.size, axes=dim.axes),))
    if all(part.size == 1 for part in common):
        return Dim(parts=_merge_all(parts, grid, padded))
    count = len(dim.segments)
    if len(set(dim.segments)) == 1 and grid.size(last[0].axes) == 1:
        rest = SubDim(size=last[0].size // count, axes=last[0].axes)
        return Dim(parts=_merge_all([SubDim(size=count), *common, rest], grid, padded))
    return Dim(parts=(*_merge_all(common, grid, padded), *last), segments=dim.segments)


def viewed(layout: Layout, grid: DeviceGrid) -> Layout:
    """The layout of the tensor reshaped so that each sub-dim becomes a separate dim.

    A framework that splits only whole dims expresses every layout of this view whose sub-dims are
    even. Raises ConversionError for segments of unequal length, which no reshape separates.
    """
    normalized = normal(layout, grid)
    for position, dim in enumerate(normalized.dims):
        if dim.segments:
            raise ConversionError(
                f"dim {position} holds segments of the unequal lengths {list(dim.segments)}, "
                "which no reshape separates. Split the tensor at the segments"
            )
    return Layout(
        dims=tuple(Dim(parts=(part,)) for dim in normalized.dims for part in dim.parts),
        partial=normalized.partial,
        padded=normalized.padded,
    )


def lengths(part: SubDim, ways: int) -> tuple[int, ...]:
    """The lengths of all `ways` chunks of a sub-dim; LayoutError where it has no such chunks."""
    return tuple(stop - start for start, stop in (part.chunk(k, ways) for k in range(ways)))


def sub_dim(axes: Sequence[Axis], chunks: Sequence[int]) -> SubDim:
    """The sub-dim whose chunks have these lengths, in its shortest notation."""
    size, longest = sum(chunks), max(chunks)
    if all(length == longest for length in chunks):
        return SubDim(size=size, axes=tuple(axes))
    starts = [min(k * longest, size) for k in range(len(chunks) + 1)]
    if all(starts[k + 1] - starts[k] == length for k, length in enumerate(chunks)):
        return SubDim(size=size, axes=tuple(axes), span=longest * len(chunks))
    return SubDim(size=size, axes=tuple(axes), chunks=tuple(chunks))


def _merge_all(parts: Sequence[SubDim], grid: DeviceGrid, padded: bool) -> tuple[SubDim, ...]:
    merged: list[SubDim] = []
    for part in parts:
        candidate = _shortest_form(part, grid, padded)
        while merged and (pair := _merge(merged[-1], candidate, grid, padded)) is not None:
            merged.pop()
            candidate = pair
        merged.append(candidate)
    return tuple(merged) or (SubDim(size=1),)


def _shortest_form(part: SubDim, grid: DeviceGrid, padded: bool) -> SubDim:
    # a padded layout stores its span: another notation of the same chunks would change the padding
    even = part.span is None and not part.chunks
    return part if padded or even else sub_dim(part.axes, lengths(part, grid.size(part.axes)))


def _merge(first: SubDim, second: SubDim, grid: DeviceGrid, padded: bool) -> SubDim | None:
    """Two adjacent sub-dims merged into one, or None where that changes the layout."""
    axes = (*first.axes, *second.axes)
    ways, more = grid.size(first.axes), grid.size(second.axes)
    if more == 1 and not second.span:
        size, wide = first.size * second.size, second.size
        if first.chunks:
            return SubDim(size=size, axes=axes, chunks=tuple(n * wide for n in first.chunks))
        return SubDim(size=size, axes=axes, span=first.span and first.span * wide)
    if first.size == 1 and ways == 1 and not first.span:
        return second.model_copy(update={"axes": axes})
    if padded and (first.chunks or second.span or second.chunks):
        return None
    if padded and first.span:
        size, span = first.size * second.size, first.span * second.size
        return SubDim(size=size, axes=axes, span=span) if first.span == ways else None
    inner = lengths(second, more)
    if first.longest(ways) > 1 and max(inner) < second.size:
        return None
    return sub_dim(axes, [outer * length for outer in lengths(first, ways) for length in inner])


def fits(layout: Layout, grid: DeviceGrid) -> None:
    """Raise LayoutError where the layout has an axis or chunks that do not exist on the grid."""
    grid.size(tuple(layout.partial))
    for position, dim in enumerate(layout.dims):
        for part in dim.parts:
            ways = grid.size(part.axes)
            try:
                part.longest(ways)
            except LayoutError as wrong:
                raise LayoutError(f"dim {position} has {wrong.detail}") from None
