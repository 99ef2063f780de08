"""Ways to a tensor that every rank has whole, and back: around ops that are not run on parts."""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.schema import Axis, Dim, Layout, Mesh, Step, SubDim


def to_whole(layout: Layout) -> tuple[Step, ...]:
    """All partial values are reduced, then all parts gathered, what was cut last first."""
    steps = []
    for axis in layout.partial:
        left = {a: how for a, how in layout.partial.items() if a != axis}
        layout = Layout(dims=layout.dims, partial=left)
        steps.append(_step("all_reduce", (axis,), layout))
    for axis in reversed([axis for dim in layout.dims for axis in dim.axes]):
        layout = Layout(dims=tuple(_without(dim, axis) for dim in layout.dims))
        steps.append(_step("all_gather", (axis,), layout))
    return tuple(steps)


def from_whole(layout: Layout) -> tuple[Step, ...]:
    """Every rank keeps its part; of a partial value the first has all and the others nothing."""
    steps = []
    cut = tuple(axis for dim in layout.dims for axis in dim.axes)
    if cut:
        steps.append(_step("slice", cut, Layout(dims=layout.dims)))
    if layout.partial:
        steps.append(_step("mask", tuple(layout.partial), layout))
    return tuple(steps)


def whole_of(layout: Layout) -> Layout:
    """The same sub-dims, cut by nothing."""
    dims = tuple(
        Dim(parts=tuple(SubDim(size=part.size) for part in dim.parts), segments=dim.segments)
        for dim in layout.dims
    )
    return Layout(dims=dims)


def gradient_of(layout: Layout, used: Sequence[Axis], mesh: Mesh) -> Layout:
    """How the gradient of an op's input lies: cut as the input; partial over the other axes on the
    op, over which it is not partial itself."""
    own = {*layout.partial, *(axis for dim in layout.dims for axis in dim.axes)}
    over = [axis for axis in mesh.names if axis in used and axis not in own]
    return Layout(dims=layout.dims, partial=dict.fromkeys(over, "sum"))


def _without(dim: Dim, axis: Axis) -> Dim:
    parts = tuple(
        SubDim(size=part.size, axes=tuple(a for a in part.axes if a != axis)) for part in dim.parts
    )
    return Dim(parts=parts, segments=dim.segments)


def _step(kind: str, axes: tuple[Axis, ...], to: Layout) -> Step:
    return Step(kind=kind, axes=axes, payload_bytes=0, ns=0, to=to)  # type: ignore[arg-type]  # a kind of ours
