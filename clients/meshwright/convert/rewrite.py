"""Notation of layouts with the sub-dims of another layout.

Layouts of other frameworks have no sub-dims: with the sub-dims `(2 4)`, `8@a@b` is `(2@a 4@b)`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshwright.convert.grid import DeviceGrid
from meshwright.convert.normal import lengths, normal, normal_dim, sub_dim
from meshwright.schema import ConversionError, Dim, Layout, SubDim


def rewritten(layout: Layout, like: Layout, grid: DeviceGrid) -> Layout:
    """The layout written with the sub-dims and segments of `like`, a layout of the same tensor.

    Raises ConversionError where the layout cuts the tensor inside these sub-dims.
    """
    if layout.shape != like.shape:
        raise ConversionError(
            f"a layout of the shape {list(layout.shape)} cannot be written like one of "
            f"{list(like.shape)}"
        )
    normalized = normal(layout, grid)
    dims = []
    for position, (source, target) in enumerate(zip(normalized.dims, like.dims, strict=True)):
        parts = source.parts if source.segments else _distribute(source.parts, target, grid)
        dim = None
        if parts is not None and [part.size for part in parts] == [p.size for p in target.parts]:
            dim = Dim(parts=parts, segments=target.segments)
        if dim is None or normal_dim(dim, grid, normalized.padded) != source:
            raise ConversionError(
                f"dim {position} of the layout {layout} is cut where the sub-dims of {like} are not"
            )
        dims.append(dim)
    return Layout(dims=tuple(dims), partial=normalized.partial, padded=normalized.padded)


def _distribute(parts: Sequence[SubDim], like: Dim, grid: DeviceGrid) -> tuple[SubDim, ...] | None:
    """The axes of normal sub-dims, distributed over the sub-dims of a dim of the same length."""
    sizes = [part.size for part in like.parts]
    count, left = len(like.segments), list(parts)
    if count and math.prod(sizes[:-1]) > 1 and any(part.axes for part in parts):
        # in normal form, equal segments begin with a sub-dim without axes, as long as their number
        if left[0].axes or left[0].size % count:
            return None
        left[0] = SubDim(size=left[0].size // count)
        sizes[-1] //= count
    distributed = []
    for size in sizes:
        part, left = _fill(size, left, grid)
        if part is None:
            return None
        distributed.append(part)
    last = distributed[-1].model_copy(update={"size": like.parts[-1].size})
    return (*distributed[:-1], last if sizes[-1] != last.size else distributed[-1])


def _fill(
    size: int, parts: Sequence[SubDim], grid: DeviceGrid
) -> tuple[SubDim | None, list[SubDim]]:
    """The first sub-dim, of this size, and the remaining sub-dims, major first."""
    rest = [part for part in parts if part.size > 1 or part.axes]
    if size == 1 and rest and rest[0].size == 1:
        return rest[0], rest[1:]
    filled = SubDim(size=1)
    while filled.size < size:
        if not rest or filled.longest(grid.size(filled.axes)) > 1:
            return None, rest  # a sub-dim that is not fully cut has no inner sub-dims
        pieces = _divide(rest[0], size // filled.size, grid)
        if pieces is None:
            return None, rest
        piece, rest = pieces[0], [*pieces[1:], *rest[1:]]
        if filled.size > 1 and (piece.span or piece.chunks):
            return None, rest
        filled = SubDim(
            size=filled.size * piece.size,
            axes=(*filled.axes, *piece.axes),
            span=piece.span,
            chunks=piece.chunks,
        )
    return filled, rest


def _divide(part: SubDim, size: int, grid: DeviceGrid) -> tuple[SubDim, ...] | None:
    """A sub-dim split into one of at most this size and an inner one; None where impossible."""
    if part.span is None and not part.chunks:
        return _divide_even(part, size, grid)
    if part.size % size:
        return None
    wide = part.size // size
    for count in range(len(part.axes), 0, -1):
        axes, behind = part.axes[:count], part.axes[count:]
        ways, more = grid.size(axes), grid.size(behind)
        if part.span and part.span % (wide * ways) == 0:
            span = part.span // wide
            if (not behind or span == ways) and wide % more == 0:
                return SubDim(size=size, axes=axes, span=span), SubDim(size=wide, axes=behind)
        chunks = lengths(part, ways * more)
        blocks = [chunks[k * more : (k + 1) * more] for k in range(ways)]
        patterns = {block for block in blocks if any(block)}
        if all(sum(block) % wide == 0 for block in blocks) and (
            not behind or (len(patterns) == 1 and all(sum(p) == wide for p in patterns))
        ):
            outer = sub_dim(axes, [sum(block) // wide for block in blocks])
            inner = sub_dim(behind, patterns.pop()) if behind else SubDim(size=wide)
            return outer, inner
    return None


def _divide_even(part: SubDim, size: int, grid: DeviceGrid) -> tuple[SubDim, ...] | None:
    if part.size <= size:
        return (part,) if size % part.size == 0 else None
    count = max(
        (k for k in range(len(part.axes) + 1) if size % grid.size(part.axes[:k]) == 0), default=0
    )
    axes, behind = part.axes[:count], part.axes[count:]
    if part.size % size or (behind and grid.size(axes) != size):
        # the sub-dim would end inside the remaining axes
        return None
    return SubDim(size=size, axes=axes), SubDim(size=part.size // size, axes=behind)
