"""Plain layouts, which split whole dims evenly: the layouts of JAX and MindSpore.

A plain dim is cut over an ordered list of axes into equal contiguous chunks. `plain_dims` returns
these axes or raises an error with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meshwright.convert.grid import DeviceGrid
from meshwright.convert.normal import fits, normal
from meshwright.schema import Axis, ConversionError, Dim, Layout, SubDim


@dataclass(frozen=True, slots=True)
class PlainDim:
    """size: the dim's length. stored: its length with padding, a multiple of the axes' size."""

    size: int
    stored: int
    axes: tuple[Axis, ...]


def plain_dims(layout: Layout, grid: DeviceGrid, *, name: str, target: str) -> tuple[PlainDim, ...]:
    """The plain dims of a layout.

    Raises ConversionError with the tensor's name where `target` cannot express a dim.
    """
    fits(layout, grid)
    dims = []
    for position, dim in enumerate(normal(layout, grid).dims):
        fault = _plain_fault(dim, layout.padded)
        if fault:
            raise ConversionError(
                f"{name}: layout {layout}: dim {position} {fault}: not in {target}"
            )
        part = dim.parts[0]
        dims.append(PlainDim(dim.size, stored_size(dim), part.axes))
    return tuple(dims)


def dims_of(shape: Sequence[int], stored: Sequence[int], axes: Sequence[Sequence[Axis]],
            grid: DeviceGrid, *, name: str) -> tuple[Dim, ...]:  # fmt: skip
    """Dims of these lengths, stored with padding up to `stored`, each cut over its axes.

    Raises ConversionError where the axes do not divide a stored length.
    """
    dims = []
    for position, (size, length, dim_axes) in enumerate(zip(shape, stored, axes, strict=True)):
        ways = grid.size(dim_axes)
        if length % ways or length < size or (length > size and not dim_axes):
            raise ConversionError(
                f"{name}: dim {position} of {size}, stored as {length}, cannot be cut into {ways} "
                f"equal chunks over {'×'.join(dim_axes) or 'no axis'}"
            )
        span = length if length > size else None
        dims.append(Dim(parts=(SubDim(size=size, axes=tuple(dim_axes), span=span),)))
    return tuple(dims)


def check_shapes(
    shape: Sequence[int], padded_from: Sequence[int] | None, entries: Sequence[object] | None
) -> None:
    """Raise ConversionError where a layout of another framework contradicts itself.

    `entries` has one entry per dim; `padded_from` is smaller than `shape` in at least one dim.
    """
    if min(shape, default=1) < 1:
        raise ConversionError(f"a tensor of the shape {list(shape)} is empty: it has no layout")
    if entries is not None and len(entries) != len(shape):
        raise ConversionError(f"{len(entries)} entries for the {len(shape)} dims of {list(shape)}")
    if padded_from is not None and (
        len(padded_from) != len(shape)
        or tuple(padded_from) == tuple(shape)
        or any(not 1 <= size <= stored for size, stored in zip(padded_from, shape, strict=True))
    ):
        raise ConversionError(
            f"the padded shape {list(shape)} is not larger than the shape {list(padded_from)}"
        )


def stored_size(dim: Dim) -> int:
    """The length of a dim in normal form, with its padding at the end."""
    inner = 1
    for part in dim.parts[1:]:
        inner *= part.size
    return (dim.parts[0].span or dim.parts[0].size) * inner if not dim.segments else dim.size


def padding_fault(dim: Dim) -> str:
    """The reason why a dim in normal form has padding before its end; empty where it has none."""
    if any(part.chunks for part in dim.parts):
        return "has chunks of lengths set by the user, each with separate padding"
    if any(part.span for part in dim.parts[1:]) or (
        dim.segments and any(part.span for part in dim.parts)
    ):
        return "has its padding inside, after every step of an outer sub-dim"
    return ""


def _plain_fault(dim: Dim, padded: bool) -> str:
    if dim.segments:
        return (
            f"holds segments of the lengths {list(dim.segments)}, each cut separately (split the "
            "tensor at the segments to convert its parts)"
        )
    if padded and (fault := padding_fault(dim)):
        return fault
    if len(dim.parts) > 1:
        view = ", ".join(str(part.size) for part in dim.parts)
        return (
            f"is cut inside, over {'×'.join(dim.parts[-1].axes)}, before its outer sub-dims are "
            f"fully cut (reshape it to [{view}] to make every sub-dim a dim)"
        )
    part = dim.parts[0]
    if part.chunks:
        return f"has chunks of the unequal lengths {list(part.chunks)}"
    if part.span and not padded:
        return (
            f"has uneven chunks, {part.size} over a span of {part.span} (pad it to {part.span} for "
            "even chunks)"
        )
    return ""
