"""One way of writing each layout, and layouts written with other sub-dims.

Many documents say the same of which device holds what: `(2@a 4@b)` is `8@a@b`, and three equal
segments with the axis on what they share are `(3 n@a)`. The normal form has as few sub-dims as
possible: each one is axes followed by what is left, and none can be joined with the next.
Axes of size 1 stay where they are; they split nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshwright.convert.grid import DeviceGrid
from meshwright.schema import Axis, ConversionError, Dim, Layout, LayoutError, SubDim


def normal(layout: Layout, grid: DeviceGrid) -> Layout:
    """The normal form of a layout; LayoutError where it does not fit the grid."""
    dims = tuple(_normal_dim(dim, grid, layout.padded) for dim in layout.dims)
    uneven = any(part.span or part.chunks for dim in dims for part in dim.parts)
    return Layout(dims=dims, partial=layout.partial, padded=layout.padded and uneven)


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


def rewritten(layout: Layout, like: Layout, grid: DeviceGrid) -> Layout:
    """The layout written with the sub-dims and segments of `like`, a layout of the same tensor.

    What another system gives back has no sub-dims; this restores them. Raises ConversionError
    where these sub-dims cannot say it.
    """
    if layout.shape != like.shape:
        raise ConversionError(
            f"a layout of the shape {list(layout.shape)} cannot be written like one of "
            f"{list(like.shape)}"
        )
    wanted = normal(layout, grid)
    dims = []
    for given, shown in zip(wanted.dims, like.dims, strict=True):
        if given.segments:
            dims.append(given)
            continue
        parts = _distributed(given.parts, shown, grid)
        dims.append(Dim(parts=parts, segments=shown.segments))
    found = Layout(dims=tuple(dims), partial=wanted.partial, padded=wanted.padded)
    if normal(found, grid) != wanted:
        raise ConversionError(
            f"the layout {layout} splits the tensor where the sub-dims of {like} do not"
        )
    return found


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


def _normal_dim(dim: Dim, grid: DeviceGrid, padded: bool) -> Dim:
    parts = list(dim.parts)
    for part in parts:
        part.longest(grid.size(part.axes))
    if not dim.segments:
        return Dim(parts=_joined(parts, grid, padded))
    common, own = parts[:-1], parts[-1:]
    whole = all(grid.size(part.axes) == 1 for part in parts)
    if whole or all(part.size == 1 for part in common):
        axes = tuple(axis for part in common for axis in part.axes)
        alone = own[0].model_copy(update={"axes": (*axes, *own[0].axes)})
        if whole:
            alone = SubDim(size=dim.size, axes=alone.axes)
        return Dim(parts=_joined([alone], grid, padded))
    count = len(dim.segments)
    if len(set(dim.segments)) == 1 and grid.size(own[0].axes) == 1:
        rest = SubDim(size=own[0].size // count, axes=own[0].axes)
        return Dim(parts=_joined([SubDim(size=count), *common, rest], grid, padded))
    return Dim(parts=(*_joined(common, grid, padded), *own), segments=dim.segments)


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
    if first.longest(ways) > 1:
        return None
    if padded and (first.span or first.chunks or second.span or second.chunks):
        return None
    inner = lengths(second, more)
    return sub_dim(axes, [own * length for own in lengths(first, ways) for length in inner])


def _distributed(given: Sequence[SubDim], like: Dim, grid: DeviceGrid) -> tuple[SubDim, ...]:
    """The axes of normal sub-dims put on the sub-dims of another dim of the same length."""
    sizes = [part.size for part in like.parts]
    count = len(like.segments)
    stream = list(given)
    if count and any(part.axes for part in given) and math.prod(sizes[:-1]) > 1:
        # equal segments are in normal form the first sub-dim, and no axis is on it
        if stream[0].axes or stream[0].size % count:
            return tuple(given)
        first, rest = stream[0].size // count, stream[1:]
        stream = [SubDim(size=first), *rest] if first > 1 else rest
        sizes[-1] //= count
    if len(stream) == 1 and (stream[0].span or stream[0].chunks):
        parts = _uneven(stream[0], sizes)
    else:
        parts = _even(stream, sizes, grid)
    if count and len(parts) == len(sizes) and sizes[-1] != like.parts[-1].size:
        parts = (*parts[:-1], parts[-1].model_copy(update={"size": like.parts[-1].size}))
    return parts


def _uneven(part: SubDim, sizes: Sequence[int]) -> tuple[SubDim, ...]:
    """An uneven sub-dim on the first of several that is longer than 1."""
    first = next((k for k, size in enumerate(sizes) if size > 1), 0)
    wide = part.size // sizes[first]
    if (part.span or 0) % wide or any(length % wide for length in part.chunks):
        return (part,)
    cut = SubDim(
        size=sizes[first],
        axes=part.axes,
        span=part.span and part.span // wide,
        chunks=tuple(length // wide for length in part.chunks),
    )
    return tuple(cut if k == first else SubDim(size=size) for k, size in enumerate(sizes))


def _even(given: Sequence[SubDim], sizes: Sequence[int], grid: DeviceGrid) -> tuple[SubDim, ...]:
    """Digits of the given sub-dims, major first, filled into sub-dims of these sizes."""
    digits: list[tuple[int, Axis | None]] = []
    for part in given:
        if part.span or part.chunks:
            return tuple(given)
        digits += [(grid.size((axis,)), axis) for axis in part.axes]
        digits.append((part.size // grid.size(part.axes), None))
    found = []
    for size in sizes:
        axes: list[Axis] = []
        left = size
        while digits:
            length, axis = digits[0]
            if axis is not None and left % length == 0 and (left > 1 or length == 1):
                axes.append(axis)
                left //= length
                digits.pop(0)
            elif axis is None and length > 1 and left > 1:
                shared = math.gcd(length, left)
                left //= shared
                digits[0] = (length // shared, None)
                break
            elif axis is None and length == 1:
                digits.pop(0)
            else:
                break
        found.append(SubDim(size=size, axes=tuple(axes)))
    return tuple(found)


def fits(layout: Layout, grid: DeviceGrid) -> None:
    """Raise LayoutError where the layout names an axis, or has chunks, that the grid has not."""
    grid.size(tuple(layout.partial))
    for position, dim in enumerate(layout.dims):
        for part in dim.parts:
            try:
                part.longest(grid.size(part.axes))
            except LayoutError as wrong:
                raise LayoutError(f"dim {position} has {wrong.detail}") from None
