"""Layouts of views: a reshape or a transpose that regroups sub-dims needs no communication.

A reshape keeps the order of the sub-dims and regroups them. If it divides a sub-dim, the first part
takes the axes.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.schema import Dim, Layout, LayoutError, Mesh, Op, SubDim

KINDS = ("reshape", "transpose", "identity")
ONE = Dim(parts=(SubDim(size=1),))


def viewed(layout: Layout, op: Op, shape: Sequence[int], mesh: Mesh) -> Layout:
    """The layout of a view, from the layout of its tensor. `shape` is that of the view."""
    if op.kind == "transpose":
        dims = tuple(layout.dims[d] for d in op.attrs["dims"])
        return Layout(dims=dims, partial=layout.partial, padded=layout.padded)
    return _regroup(layout, shape, mesh, op.name)


def unviewed(layout: Layout, op: Op, shape: Sequence[int], mesh: Mesh) -> Layout:
    """The layout of a tensor, from the layout of its view. `shape` is that of the tensor."""
    if op.kind == "transpose":
        order = list(op.attrs["dims"])
        dims = tuple(layout.dims[order.index(d)] for d in range(len(order)))
        return Layout(dims=dims, partial=layout.partial, padded=layout.padded)
    return _regroup(layout, shape, mesh, op.name)


def _regroup(layout: Layout, shape: Sequence[int], mesh: Mesh, name: str) -> Layout:
    pending: list[SubDim | Dim] = []
    for dim in layout.dims:
        pending += [dim] if dim.segments else [part for part in dim.parts if part.size > 1]
    pending.reverse()
    dims = []
    for size in shape:
        parts: list[SubDim] = []
        left = size
        while left > 1:
            if not pending:
                raise LayoutError(f"op {name!r}: {list(shape)} does not group {layout}")
            part = pending.pop()
            if isinstance(part, Dim):
                if part.size != left or parts:
                    raise LayoutError(f"op {name!r}: a view divides the segments of {layout}")
                dims.append(part)
                break
            if part.size > left:
                part, rest = _split(part, left, mesh, name)
                pending.append(rest)
            if left % part.size:
                raise LayoutError(f"op {name!r}: {list(shape)} does not group {layout}")
            parts.append(part)
            left //= part.size
        else:
            dims.append(Dim(parts=tuple(parts)) if parts else ONE)
    return Layout(dims=tuple(dims), partial=layout.partial, padded=layout.padded)


def _split(part: SubDim, first: int, mesh: Mesh, name: str) -> tuple[SubDim, SubDim]:
    if part.size % first or first % mesh.size(part.axes) or part.span or part.chunks:
        raise LayoutError(f"op {name!r}: a view divides {part.size} into {first} and the rest")
    return SubDim(size=first, axes=part.axes), SubDim(size=part.size // first)
