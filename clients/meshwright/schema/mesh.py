"""Device meshes: the devices of a topology along named axes, slowest link first."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NewType

from pydantic import Field, model_validator

from meshwright.schema.errors import LayoutError
from meshwright.schema.model import Model

Axis = NewType("Axis", str)
Rank = NewType("Rank", int)


class MeshAxis(Model):
    """A mesh axis. It is part of one level of the topology."""

    name: Axis = Field(description="The name of the axis, unique in the mesh.")
    size: int = Field(ge=1, description="The number of devices along the axis.")
    level: str = Field(description="The name of the topology level.")


class Mesh(Model):
    """A device mesh. Ranks count with the last axis varying fastest."""

    axes: tuple[MeshAxis, ...] = Field(description="The axes of the mesh, slowest first.")

    @model_validator(mode="after")
    def _check(self) -> Mesh:
        names = [axis.name for axis in self.axes]
        if len(set(names)) < len(names):
            raise LayoutError(f"mesh axes have unique names, got {', '.join(names)}")
        return self

    @property
    def device_count(self) -> int:
        return math.prod(axis.size for axis in self.axes)

    @property
    def names(self) -> tuple[Axis, ...]:
        return tuple(axis.name for axis in self.axes)

    def size(self, axes: Collection[Axis]) -> int:
        """The number of devices in a group over `axes`; raises LayoutError for an unknown axis."""
        sizes = {axis.name: axis.size for axis in self.axes}
        for axis in axes:
            if axis not in sizes:
                raise LayoutError(f"the mesh has no axis {axis!r}; it has {', '.join(self.names)}")
        return math.prod(sizes[axis] for axis in axes)

    def coordinates(self, rank: int) -> dict[Axis, int]:
        """The coordinate of a rank on every axis."""
        coordinates = {}
        for axis in reversed(self.axes):
            rank, coordinates[axis.name] = divmod(rank, axis.size)
        return coordinates

    def groups(self, axes: Collection[Axis]) -> tuple[tuple[Rank, ...], ...]:
        """The process groups over `axes`: ranks that differ along these axes only, in order."""
        self.size(axes)
        groups: dict[tuple[int, ...], list[Rank]] = {}
        for rank in range(self.device_count):
            at = self.coordinates(rank)
            key = tuple(at[name] for name in self.names if name not in axes)
            groups.setdefault(key, []).append(Rank(rank))
        return tuple(tuple(group) for group in groups.values())
