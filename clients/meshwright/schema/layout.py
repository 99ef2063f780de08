"""Layouts: the sharding of one tensor on a mesh.

A tensor dim is an ordered product of *sub-dims*, major first. Each sub-dim lists the mesh axes that
shard it, slowest first. If a dim is a concatenation of segments (fused q|k|v), its sub-dims
describe every segment in the same way, and `segments` gives the lengths of the segments.
A value may be *partial* over further axes: the true value is the sum (or maximum) over them.

A sub-dim that its axes do not divide is split into chunks of equal length over a longer `span`. The
last chunks are short or empty (`torch.chunk`, DTensor). A `padded` layout stores zeros after short
chunks, so that all devices have the same shape.

A tensor with a gradient has a pair of layouts. Per axis the pair is one of

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
    """A sub-dim: a factor of a tensor dim, with the mesh axes that shard it."""

    size: int = Field(ge=1, description="The length of the sub-dim in elements.")
    axes: tuple[Axis, ...] = Field(
        default=(), description="The mesh axes that shard the sub-dim, slowest first."
    )
    span: int | None = Field(
        default=None,
        description="The length that the axes divide into equal chunks, if they do not divide "
        "`size`. It is larger than `size`.",
    )
    chunks: tuple[int, ...] = Field(
        default=(),
        description="The lengths of all chunks, if the user specified them (`manual_split` of "
        "MindSpore).",
    )

    @model_validator(mode="after")
    def _check(self) -> SubDim:
        if self.span is not None and (self.chunks or not self.axes or self.span <= self.size):
            raise LayoutError(
                f"a sub-dim of {self.size} has the span {self.span}. Use a span longer than the "
                "sub-dim, with axes and without chunks"
            )
        if self.chunks and (min(self.chunks) < 0 or sum(self.chunks) != self.size):
            raise LayoutError(
                f"chunks of the lengths {list(self.chunks)} do not add up to a sub-dim of "
                f"{self.size}"
            )
        return self

    def longest(self, ways: int) -> int:
        """The length in elements of the longest of `ways` chunks.

        Raises LayoutError if the axes do not divide the sub-dim into `ways` chunks.
        """
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
        """The start and stop of one of `ways` chunks. The last chunks may be short or empty."""
        longest = self.longest(ways)
        if self.chunks:
            start = sum(self.chunks[:index])
            return start, start + self.chunks[index]
        return min(index * longest, self.size), min((index + 1) * longest, self.size)


class Dim(Model):
    """A tensor dim as a product of sub-dims."""

    parts: tuple[SubDim, ...] = Field(description="The sub-dims, major first.")
    segments: tuple[int, ...] = Field(
        default=(),
        description="The lengths of the segments, if the dim is a concatenation of several, such "
        "as q|k|v.",
    )

    @model_validator(mode="after")
    def _check(self) -> Dim:
        length = math.prod(part.size for part in self.parts)
        if self.segments and (min(self.segments) < 1 or sum(self.segments) != length):
            raise LayoutError(
                f"segments of the lengths {list(self.segments)} do not add up to a dim of {length}"
            )
        return self

    @property
    def size(self) -> int:
        return sum(self.segments) or math.prod(part.size for part in self.parts)

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(axis for part in self.parts for axis in part.axes)


class Layout(Model):
    """The layout of one tensor on a mesh."""

    dims: tuple[Dim, ...] = Field(description="The dims of the tensor.")
    partial: dict[Axis, Reduction] = Field(
        default_factory=dict,
        description="The reduction that is pending over each axis over which the value is partial.",
    )
    padded: bool = Field(
        default=False,
        description="Whether shards are stored at equal length, with zeros after short chunks.",
    )

    @model_validator(mode="after")
    def _check(self) -> Layout:
        used = [*(axis for dim in self.dims for axis in dim.axes), *self.partial]
        for axis in used:
            if used.count(axis) > 1:
                raise LayoutError(f"axis {axis!r} is used twice in one layout: {self}")
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(dim.size for dim in self.dims)

    def local_shape(self, mesh: Mesh) -> tuple[int, ...]:
        """The largest local shape of any device, in elements.

        Raises LayoutError if the axes do not divide a dim.
        """
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
        dims = []
        for dim in self.dims:
            parts = [_sub_dim_text(part) for part in dim.parts]
            dims.append(parts[0] if len(parts) == 1 else f"({' '.join(parts)})")
        partial = "".join(f" +{how}@{axis}" for axis, how in sorted(self.partial.items()))
        return f"[{', '.join(dims)}]{partial}"


def _sub_dim_text(part: SubDim) -> str:
    span = f"<{part.span}" if part.span is not None else ""
    chunks = f"<{'+'.join(map(str, part.chunks))}" if part.chunks else ""
    return f"{part.size}{span}{chunks}" + "".join(f"@{axis}" for axis in part.axes)


class LayoutPair(Model):
    """The layouts of a value and of its gradient."""

    value: Layout = Field(description="The layout of the value.")
    gradient: Layout | None = Field(
        default=None, description="The layout of the gradient. None if the tensor has no gradient."
    )
