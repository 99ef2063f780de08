"""Layouts of views: a reshape or a transpose that only renames sub-dims moves nothing.

A reshape keeps the order of the sub-dims and groups them anew; one that it cuts through is split in
two, of which the first takes the axes.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.schema import Dim, Layout, LayoutError, Mesh, Op, SubDim

KINDS = ("reshape", "transpose")
ONE = Dim(parts=(SubDim(size=1),))


def viewed(layout: Layout, op: Op, shape: Sequence[int], mesh: Mesh) -> Layout:
    """The layout of what a view makes of a tensor; shape: of the view."""
    if op.kind == "transpose":
        dims = tuple(layout.dims[d] for d in op.attrs["dims"])
        return Layout(dims=dims, partial=layout.partial, padded=layout.padded)
    return _regrouped(layout, shape, mesh, op.name)


def unviewed(layout: Layout, op: Op, shape: Sequence[int], mesh: Mesh) -> Layout:
    """The layout of the tensor whose view lies so; shape: of the tensor."""
    if op.kind == "transpose":
        order = list(op.attrs["dims"])
        dims = tuple(layout.dims[order.index(d)] for d in range(len(order)))
        return Layout(dims=dims, partial=layout.partial, padded=layout.padded)
    return _regrouped(layout, shape, mesh, op.name)


def _regrouped(layout: Layout, shape: Sequence[int], mesh: Mesh, name: str) -> Layout:
    waiting: list[SubDim | Dim] = []
    for dim in layout.dims:
        waiting += [dim] if dim.segments else [part for part in dim.parts if part.size > 1]
    waiting.reverse()
    dims = []
    for size in shape:
        own: list[SubDim] = []
        left = size
        while left > 1:
            part = waiting.pop()
            if isinstance(part, Dim):
                if part.size != left or own:
                    raise LayoutError(f"op {name!r}: a view cuts through the segments of {layout}")
                dims.append(part)
                break
            if part.size > left:
                part, rest = _split(part, left, mesh, name)
                waiting.append(rest)
            if left % part.size:
                raise LayoutError(f"op {name!r}: {list(shape)} does not group {layout}")
            own.append(part)
            left //= part.size
        else:
            dims.append(Dim(parts=tuple(own)) if own else ONE)
    return Layout(dims=tuple(dims), partial=layout.partial, padded=layout.padded)


def _split(part: SubDim, first: int, mesh: Mesh, name: str) -> tuple[SubDim, SubDim]:
    if part.size % first or first % mesh.size(part.axes) or part.span or part.chunks:
        raise LayoutError(f"op {name!r}: a view cuts {part.size} into {first} and the rest")
    return SubDim(size=first, axes=part.axes), SubDim(size=part.size // first)
