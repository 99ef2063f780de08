"""Layouts: how one tensor lies on a mesh.

A tensor dim is an ordered product of *sub-dims*, major first, and each sub-dim lists the mesh axes
it is split over, slowest first. Where a dim is a sum of segments (fused q|k|v), its sub-dims
describe every segment alike: the first is common to all, and `segments` gives their lengths.
A value may be *partial* over further axes: the true value is the sum (or maximum) over them.

A sub-dim that does not divide by its axes is cut into chunks of equal length over a `span` longer
than itself: the last chunks are short or empty (`torch.chunk`, DTensor). A layout that is `padded`
stores them filled up with zeros, so that all devices hold the same shape.

A tensor with gradient has a pair of layouts. Per axis the pair is one of

    S  value and gradient split alike          R  both replicated
    P  value partial, gradient replicated      V  value replicated, gradient partial
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, model_validator

from meshwright.schema.errors import LayoutError
from meshwright.schema.mesh import Axis, Mesh
from meshwright.schema.model import Model

Reduction = Literal["sum", "max"]


class SubDim(Model):
    """A factor of a tensor dim and the axes that split it, slowest first.

    span: the length that the axes cut into equal chunks, where `size` does not divide.
    chunks: the lengths of all chunks, where they are the user's own (MindSpore's `manual_split`).
    """

    size: int = Field(ge=1)
    axes: tuple[Axis, ...] = ()
    span: int | None = None
    chunks: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _valid(self) -> SubDim:
        if self.span is not None and (self.chunks or not self.axes or self.span <= self.size):
            raise LayoutError(
                f"a sub-dim of {self.size} with the span {self.span}: a span is longer than its "
                "sub-dim, which is split over axes and has no chunks of its own"
            )
        if self.chunks and (min(self.chunks) < 0 or sum(self.chunks) != self.size):
            raise LayoutError(
                f"chunks of the lengths {list(self.chunks)} do not make up a sub-dim of {self.size}"
            )
        return self

    def longest(self, ways: int) -> int:
        """The length of the longest of `ways` chunks; LayoutError where there are no such."""
        if self.chunks:
            if len(self.chunks) != ways:
                raise LayoutError(f"{len(self.chunks)} chunks and axes of size {ways}")
            return max(self.chunks)
        span = self.span or self.size
        if span % ways:
            raise LayoutError(
                f"a part of length {span}, which cannot be split over {'×'.join(self.axes)} of "
                f"size {ways}"
            )
        return span // ways

    def chunk(self, index: int, ways: int) -> tuple[int, int]:
        """Start and stop of one of `ways` chunks: equal ones, the last short or empty."""
        longest = self.longest(ways)
        if self.chunks:
            start = sum(self.chunks[:index])
            return start, start + self.chunks[index]
        return min(index * longest, self.size), min((index + 1) * longest, self.size)


class Dim(Model):
    """One tensor dim; `segments` are the lengths of its parts where it is a sum of several."""

    parts: tuple[SubDim, ...]
    segments: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _valid(self) -> Dim:
        length = math.prod(part.size for part in self.parts)
        if self.segments and (min(self.segments) < 1 or sum(self.segments) != length):
            raise LayoutError(
                f"segments of the lengths {list(self.segments)} do not make up a dim of {length}"
            )
        return self

    @property
    def size(self) -> int:
        return sum(self.segments) or math.prod(part.size for part in self.parts)

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(axis for part in self.parts for axis in part.axes)


class Layout(Model):
    """How one tensor lies on a mesh. `partial` maps an axis to how its parts are reduced.

    padded: short chunks are stored with zeros behind them, up to the longest.
    """

    dims: tuple[Dim, ...]
    partial: dict[Axis, Reduction] = Field(default_factory=dict)
    padded: bool = False

    @model_validator(mode="after")
    def _valid(self) -> Layout:
        used = [*(axis for dim in self.dims for axis in dim.axes), *self.partial]
        for axis in used:
            if used.count(axis) > 1:
                raise LayoutError(f"axis {axis!r} is used twice in one layout: {self}")
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(dim.size for dim in self.dims)

    def local_shape(self, mesh: Mesh) -> tuple[int, ...]:
        """The largest shape on any device; LayoutError where a part has other chunks than axes."""
        local = []
        for position, dim in enumerate(self.dims):
            length = 1
            for part in dim.parts:
                try:
                    longest = part.longest(mesh.size(part.axes))
                except LayoutError as wrong:
                    raise LayoutError(f"dim {position} has {wrong.detail}") from None
                length *= longest
            whole = math.prod(part.size for part in dim.parts)
            local.append(length if not dim.segments else dim.size * length // whole)
        return tuple(local)

    def __str__(self) -> str:
        shown = []
        for dim in self.dims:
            parts = [_shown(part) for part in dim.parts]
            shown.append(parts[0] if len(parts) == 1 else f"({' '.join(parts)})")
        partial = "".join(f" +{how}@{axis}" for axis, how in sorted(self.partial.items()))
        return f"[{', '.join(shown)}]{partial}"


def _shown(part: SubDim) -> str:
    span = f"<{part.span}" if part.span is not None else ""
    chunks = f"<{'+'.join(map(str, part.chunks))}" if part.chunks else ""
    return f"{part.size}{span}{chunks}" + "".join(f"@{axis}" for axis in part.axes)


class LayoutPair(Model):
    """The layouts of a value and of its gradient; `gradient` is None where there is none."""

    value: Layout
    gradient: Layout | None = None
