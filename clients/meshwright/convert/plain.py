"""Layouts that split whole dims evenly: all that JAX and MindSpore know.

A plain dim is cut over an ordered list of axes into equal contiguous chunks. `plain_dims` says
which axes these are, or why there are none such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meshwright.convert.grid import DeviceGrid
from meshwright.convert.normal import fits, normal
from meshwright.schema import Axis, ConversionError, Dim, Layout, SubDim


@dataclass(frozen=True, slots=True)
class PlainDim:
    """size: the dim's own length. stored: its length with padding; the axes divide it."""

    size: int
    stored: int
    axes: tuple[Axis, ...]


def plain_dims(layout: Layout, grid: DeviceGrid, *, name: str, target: str) -> tuple[PlainDim, ...]:
    """The dims of a layout as plain ones.

    Raises ConversionError, naming the tensor, where `target` cannot say what a dim is.
    """
    fits(layout, grid)
    found = []
    for position, dim in enumerate(normal(layout, grid).dims):
        why = _not_plain(dim, layout.padded)
        if why:
            raise ConversionError(f"{name}: layout {layout}: dim {position} {why}: not in {target}")
        part = dim.parts[0]
        found.append(PlainDim(dim.size, stored_size(dim), part.axes))
    return tuple(found)


def dims_of(shape: Sequence[int], stored: Sequence[int], axes: Sequence[Sequence[Axis]],
            grid: DeviceGrid, *, name: str) -> tuple[Dim, ...]:  # fmt: skip
    """Dims of these lengths, stored with padding up to `stored`, each cut over its axes.

    Raises ConversionError where a stored length does not divide.
    """
    found = []
    for position, (size, length, own) in enumerate(zip(shape, stored, axes, strict=True)):
        ways = grid.size(own)
        if length % ways or length < size or (length > size and not own):
            raise ConversionError(
                f"{name}: dim {position} of {size}, stored as {length}, cannot be cut into {ways} "
                f"equal chunks over {'×'.join(own) or 'no axis'}"
            )
        span = length if length > size else None
        found.append(Dim(parts=(SubDim(size=size, axes=tuple(own), span=span),)))
    return tuple(found)


def check_shapes(
    shape: Sequence[int], padded_from: Sequence[int] | None, entries: Sequence[object] | None
) -> None:
    """Raise ConversionError where a layout of another system contradicts itself.

    entries: one a dim, where there are such. padded_from: smaller than the shape somewhere.
    """
    if min(shape, default=1) < 1:
        raise ConversionError(f"a tensor of the shape {list(shape)} is empty: it has no layout")
    if entries is not None and len(entries) != len(shape):
        raise ConversionError(f"{len(entries)} entries for the {len(shape)} dims of {list(shape)}")
    if padded_from is not None and (
        len(padded_from) != len(shape)
        or tuple(padded_from) == tuple(shape)
        or any(not 1 <= own <= stored for own, stored in zip(padded_from, shape, strict=True))
    ):
        raise ConversionError(
            f"a tensor padded from {list(padded_from)} is not longer when it is {list(shape)}"
        )


def stored_size(dim: Dim) -> int:
    """The length of a dim in normal form that is stored with its padding at the end."""
    inner = 1
    for part in dim.parts[1:]:
        inner *= part.size
    return (dim.parts[0].span or dim.parts[0].size) * inner if not dim.segments else dim.size


def padding_fault(dim: Dim) -> str:
    """Why the padding of a dim in normal form is not at its end; empty where it is."""
    if any(part.chunks for part in dim.parts):
        return "has chunks of the user's own lengths, each with its own padding"
    if any(part.span for part in dim.parts[1:]) or (
        dim.segments and any(part.span for part in dim.parts)
    ):
        return "has its padding inside, behind every step of an outer sub-dim"
    return ""


def _not_plain(dim: Dim, padded: bool) -> str:
    if dim.segments:
        return (
            f"holds segments of the lengths {list(dim.segments)}, each cut by itself (split the "
            "tensor there to convert its parts)"
        )
    if padded and (fault := padding_fault(dim)):
        return fault
    if len(dim.parts) > 1:
        view = ", ".join(str(part.size) for part in dim.parts)
        return (
            f"is cut inside, over {'×'.join(dim.parts[-1].axes)}, before what is outside of it is "
            f"used up (reshaped to [{view}] every sub-dim is a dim of its own)"
        )
    part = dim.parts[0]
    if part.chunks:
        return f"has chunks of the unequal lengths {list(part.chunks)}"
    if part.span and not padded:
        return (
            f"has uneven chunks, {part.size} over a span of {part.span} (padded to {part.span} it "
            "would be even)"
        )
    return ""
