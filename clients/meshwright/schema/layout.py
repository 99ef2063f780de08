"""Layouts: how one tensor lies on a mesh.

A tensor dim is an ordered product of *sub-dims*, major first, and each sub-dim lists the mesh axes
it is split over, slowest first. Where a dim is a sum of segments (fused q|k|v), its sub-dims
describe every segment alike: the first is common to all, and `segments` gives their lengths.
A value may be *partial* over further axes: the true value is the sum (or maximum) over them.

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
    """A factor of a tensor dim and the axes that split it, slowest first."""

    size: int = Field(ge=1)
    axes: tuple[Axis, ...] = ()


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
    """How one tensor lies on a mesh. `partial` maps an axis to how its parts are reduced."""

    dims: tuple[Dim, ...]
    partial: dict[Axis, Reduction] = Field(default_factory=dict)

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
        """The shape on one device; LayoutError where a sub-dim does not divide by its axes."""
        local = []
        for position, dim in enumerate(self.dims):
            for part in dim.parts:
                ways = mesh.size(part.axes)
                if part.size % ways:
                    raise LayoutError(
                        f"dim {position} has a part of length {part.size}, which cannot be split "
                        f"over {'×'.join(part.axes)} of size {ways}"
                    )
            local.append(dim.size // mesh.size(dim.axes))
        return tuple(local)

    def __str__(self) -> str:
        shown = []
        for dim in self.dims:
            parts = [f"{p.size}" + "".join(f"@{axis}" for axis in p.axes) for p in dim.parts]
            shown.append(parts[0] if len(parts) == 1 else f"({' '.join(parts)})")
        partial = "".join(f" +{how}@{axis}" for axis, how in self.partial.items())
        return f"[{', '.join(shown)}]{partial}"


class LayoutPair(Model):
    """The layouts of a value and of its gradient; `gradient` is None where there is none."""

    value: Layout
    gradient: Layout | None = None
