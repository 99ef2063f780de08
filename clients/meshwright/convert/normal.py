"""One way of writing each layout.

Many documents say the same of which device holds what: `(2@a 4@b)` is `8@a@b`, and three equal
segments with the axis on what they share are `(3 n@a)`. The normal form has as few sub-dims as
possible: each one is axes followed by what is left, and none can be joined with the next.
Axes of size 1 stay where they are; they split nothing.
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
        return Dim(parts=_joined(parts, grid, padded))
    common, own = parts[:-1], parts[-1:]
    whole = all(grid.size(part.axes) == 1 for part in parts)
    if whole:
        return Dim(parts=(SubDim(size=dim.size, axes=dim.axes),))
    if all(part.size == 1 for part in common):
        return Dim(parts=_joined(parts, grid, padded))
    count = len(dim.segments)
    if len(set(dim.segments)) == 1 and grid.size(own[0].axes) == 1:
        rest = SubDim(size=own[0].size // count, axes=own[0].axes)
        return Dim(parts=_joined([SubDim(size=count), *common, rest], grid, padded))
    return Dim(parts=(*_joined(common, grid, padded), *own), segments=dim.segments)


def viewed(layout: Layout, grid: DeviceGrid) -> Layout:
    """The same layout of the tensor reshaped so that each sub-dim is a dim of its own.

    A system that splits whole dims only expresses every layout of that view whose sub-dims are
    even. Raises ConversionError where segments are of unequal length: no reshape parts them.
    """
    found = normal(layout, grid)
    for position, dim in enumerate(found.dims):
        if dim.segments:
            raise ConversionError(
                f"dim {position} holds segments of the unequal lengths {list(dim.segments)}, "
                "which no reshape takes apart; split the tensor there"
            )
    return Layout(
        dims=tuple(Dim(parts=(part,)) for dim in found.dims for part in dim.parts),
        partial=found.partial,
        padded=found.padded,
    )


def lengths(part: SubDim, ways: int) -> tuple[int, ...]:
    """The lengths of all chunks of a sub-dim; LayoutError where it has no such chunks."""
    return tuple(stop - start for start, stop in (part.chunk(k, ways) for k in range(ways)))


def sub_dim(axes: Sequence[Axis], chunks: Sequence[int]) -> SubDim:
    """The sub-dim whose chunks have these lengths, written the shortest way."""
    size, longest = sum(chunks), max(chunks)
    if all(length == longest for length in chunks):
        return SubDim(size=size, axes=tuple(axes))
    starts = [min(k * longest, size) for k in range(len(chunks) + 1)]
    if all(starts[k + 1] - starts[k] == length for k, length in enumerate(chunks)):
        return SubDim(size=size, axes=tuple(axes), span=longest * len(chunks))
    return SubDim(size=size, axes=tuple(axes), chunks=tuple(chunks))


def _joined(parts: Sequence[SubDim], grid: DeviceGrid, padded: bool) -> tuple[SubDim, ...]:
    found: list[SubDim] = []
    for part in parts:
        after = _shortest(part, grid, padded)
        while found and (both := _join(found[-1], after, grid, padded)) is not None:
            found.pop()
            after = both
        found.append(after)
    return tuple(found) or (SubDim(size=1),)


def _shortest(part: SubDim, grid: DeviceGrid, padded: bool) -> SubDim:
    # a padded layout stores its span: another way to write the same chunks would store another
    even = part.span is None and not part.chunks
    return part if padded or even else sub_dim(part.axes, lengths(part, grid.size(part.axes)))


def _join(first: SubDim, second: SubDim, grid: DeviceGrid, padded: bool) -> SubDim | None:
    """Two neighbours as one, or None where that would be another layout."""
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
    return sub_dim(axes, [own * length for own in lengths(first, ways) for length in inner])


def fits(layout: Layout, grid: DeviceGrid) -> None:
    """Raise LayoutError where the layout names an axis, or has chunks, that the grid has not."""
    grid.size(tuple(layout.partial))
    for position, dim in enumerate(layout.dims):
        for part in dim.parts:
            ways = grid.size(part.axes)
            try:
                part.longest(ways)
            except LayoutError as wrong:
                raise LayoutError(f"dim {position} has {wrong.detail}") from None
