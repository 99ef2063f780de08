"""Layouts written with given sub-dims.

What another system gives back knows no sub-dims: `8@a@b` is written like `(2 4)` as `(2@a 4@b)`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshwright.convert.grid import DeviceGrid
from meshwright.convert.normal import lengths, normal, normal_dim, sub_dim
from meshwright.schema import ConversionError, Dim, Layout, SubDim


def rewritten(layout: Layout, like: Layout, grid: DeviceGrid) -> Layout:
    """The layout written with the sub-dims and segments of `like`, a layout of the same tensor.

    Raises ConversionError where it cuts the tensor in places where these sub-dims do not.
    """
    if layout.shape != like.shape:
        raise ConversionError(
            f"a layout of the shape {list(layout.shape)} cannot be written like one of "
            f"{list(like.shape)}"
        )
    wanted = normal(layout, grid)
    dims = []
    for position, (given, shown) in enumerate(zip(wanted.dims, like.dims, strict=True)):
        parts = given.parts if given.segments else _distributed(given.parts, shown, grid)
        found = None
        if parts is not None and [part.size for part in parts] == [p.size for p in shown.parts]:
            found = Dim(parts=parts, segments=shown.segments)
        if found is None or normal_dim(found, grid, wanted.padded) != given:
            raise ConversionError(
                f"dim {position} of the layout {layout} is cut where the sub-dims of {like} are not"
            )
        dims.append(found)
    return Layout(dims=tuple(dims), partial=wanted.partial, padded=wanted.padded)


def _distributed(given: Sequence[SubDim], like: Dim, grid: DeviceGrid) -> tuple[SubDim, ...] | None:
    """The axes of normal sub-dims put on the sub-dims of a dim of the same length."""
    sizes = [part.size for part in like.parts]
    count, left = len(like.segments), list(given)
    if count and math.prod(sizes[:-1]) > 1 and any(part.axes for part in given):
        # in normal form equal segments begin with a sub-dim of their number, without axes
        if left[0].axes or left[0].size % count:
            return None
        left[0] = SubDim(size=left[0].size // count)
        sizes[-1] //= count
    found = []
    for size in sizes:
        part, left = _filled(size, left, grid)
        if part is None:
            return None
        found.append(part)
    last = found[-1].model_copy(update={"size": like.parts[-1].size})
    return (*found[:-1], last if sizes[-1] != last.size else found[-1])


def _filled(
    size: int, given: Sequence[SubDim], grid: DeviceGrid
) -> tuple[SubDim | None, list[SubDim]]:
    """The first sub-dim, of this size, and what is left of those given, major first."""
    rest = [part for part in given if part.size > 1 or part.axes]
    if size == 1 and rest and rest[0].size == 1:
        return rest[0], rest[1:]
    found = SubDim(size=1)
    while found.size < size:
        if not rest or found.longest(grid.size(found.axes)) > 1:
            return None, rest  # nothing can stand inside of what is not cut up
        pieces = _divided(rest[0], size // found.size, grid)
        if pieces is None:
            return None, rest
        own, rest = pieces[0], [*pieces[1:], *rest[1:]]
        if found.size > 1 and (own.span or own.chunks):
            return None, rest
        found = SubDim(
            size=found.size * own.size,
            axes=(*found.axes, *own.axes),
            span=own.span,
            chunks=own.chunks,
        )
    return found, rest


def _divided(part: SubDim, size: int, grid: DeviceGrid) -> tuple[SubDim, ...] | None:
    """A sub-dim as one of at most this size and what is inside of that; None where it is none."""
    if part.span is None and not part.chunks:
        return _even(part, size, grid)
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


def _even(part: SubDim, size: int, grid: DeviceGrid) -> tuple[SubDim, ...] | None:
    if part.size <= size:
        return (part,) if size % part.size == 0 else None
    count = max(
        (k for k in range(len(part.axes) + 1) if size % grid.size(part.axes[:k]) == 0), default=0
    )
    axes, behind = part.axes[:count], part.axes[count:]
    if part.size % size or (behind and grid.size(axes) != size):
        # a sub-dim that ends inside of the axes' rest
        return None
    return SubDim(size=size, axes=axes), SubDim(size=part.size // size, axes=behind)
