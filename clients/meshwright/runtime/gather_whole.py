"""Gathers of whole tensors and the slices back, around ops that cannot run on shards."""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.schema import Axis, Dim, Layout, Mesh, Step, SubDim


def to_whole(layout: Layout) -> tuple[Step, ...]:
    """The steps that reduce partial values, then gather all shards, the last axis first."""
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
    """The steps from a whole tensor to shards: a slice, and a mask for partial values.

    Of a partial value, the first rank has the value and the others zeros.
    """
    steps = []
    cut = tuple(axis for dim in layout.dims for axis in dim.axes)
    if cut:
        steps.append(_step("slice", cut, Layout(dims=layout.dims)))
    if layout.partial:
        steps.append(_step("mask", tuple(layout.partial), layout))
    return tuple(steps)


def whole_of(layout: Layout) -> Layout:
    """The unsharded layout with the same sub-dims."""
    dims = tuple(
        Dim(parts=tuple(SubDim(size=part.size) for part in dim.parts), segments=dim.segments)
        for dim in layout.dims
    )
    return Layout(dims=dims)


def gradient_of(layout: Layout, used: Sequence[Axis], mesh: Mesh) -> Layout:
    """The layout of the gradient of an op's input.

    It is sharded as the input, and partial over all other axes on the op over which the input is
    not partial.
    """
    on_input = {*layout.partial, *(axis for dim in layout.dims for axis in dim.axes)}
    over = [axis for axis in mesh.names if axis in used and axis not in on_input]
    return Layout(dims=layout.dims, partial=dict.fromkeys(over, "sum"))


def _without(dim: Dim, axis: Axis) -> Dim:
    parts = tuple(
        SubDim(size=part.size, axes=tuple(a for a in part.axes if a != axis)) for part in dim.parts
    )
    return Dim(parts=parts, segments=dim.segments)


def _step(kind: str, axes: tuple[Axis, ...], to: Layout) -> Step:
    return Step(kind=kind, axes=axes, payload_bytes=0, ns=0, to=to)  # type: ignore[arg-type]  # a kind of ours
