"""Device grids: the device meshes of other frameworks.

A grid is a named, row-major array of ranks: PyTorch's DeviceMesh, JAX's Mesh, MindSpore's device
matrix with its alias names and rank list. Its dims may have any order; the axes of Meshwright's
`Mesh` have the order in which ranks are counted.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import model_validator

from meshwright.schema import Axis, ConversionError, LayoutError, Mesh, MeshAxis, Model

if TYPE_CHECKING:
    import jax
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

AxisType = Literal["auto", "explicit"]
LEVEL = "device"  # chosen: the level of an axis that comes without a level of the topology


class DeviceGrid(Model):
    """Names and sizes of the dims, and the ranks in row-major order (the last dim is fastest)."""

    names: tuple[Axis, ...]
    sizes: tuple[int, ...]
    ranks: tuple[int, ...]

    @model_validator(mode="after")
    def _valid(self) -> DeviceGrid:
        if len(set(self.names)) < len(self.names) or len(self.names) != len(self.sizes):
            raise LayoutError(
                f"a device grid has one size for each of its names, got the names "
                f"{list(self.names)} and the sizes {list(self.sizes)}"
            )
        count = math.prod(self.sizes)
        if min(self.sizes, default=1) < 1 or {count} != {len(self.ranks), len(set(self.ranks))}:
            raise LayoutError(
                f"a device grid of the sizes {list(self.sizes)} needs {count} "
                f"ranks, all different, got {len(self.ranks)}: {list(self.ranks[:8])}…"
            )
        return self

    def size(self, axes: Collection[Axis]) -> int:
        """The number of devices over `axes`; LayoutError for an axis that the grid lacks."""
        sizes = dict(zip(self.names, self.sizes, strict=True))
        for axis in axes:
            if axis not in sizes:
                raise LayoutError(f"there is no axis {axis!r}; there are {', '.join(self.names)}")
        return math.prod(sizes[axis] for axis in axes)

    def coordinates(self, position: int) -> dict[Axis, int]:
        """The coordinates, by dim, of the rank at a position of `ranks`."""
        coordinates = {}
        for name, size in zip(reversed(self.names), reversed(self.sizes), strict=True):
            position, coordinates[name] = divmod(position, size)
        return coordinates

    def to_torch(self, device_type: str) -> DeviceMesh:
        """torch's DeviceMesh; requires an initialized process group of its ranks."""
        import torch
        from torch.distributed.device_mesh import DeviceMesh

        ranks = torch.tensor(self.ranks, dtype=torch.int).reshape(self.sizes)
        return DeviceMesh(device_type, ranks, mesh_dim_names=tuple(self.names))

    def to_torch_over(self, groups: Sequence[ProcessGroup], device_type: str) -> DeviceMesh:
        """torch's DeviceMesh over existing process groups of this process, one along each dim."""
        import torch
        from torch.distributed.device_mesh import DeviceMesh

        ranks = torch.tensor(self.ranks, dtype=torch.int).reshape(self.sizes)
        names = tuple(self.names)
        return DeviceMesh.from_group(list(groups), device_type, ranks, mesh_dim_names=names)

    @classmethod
    def from_torch(cls, mesh: DeviceMesh) -> DeviceGrid:
        """The grid of a DeviceMesh; dims without names are called dim0, dim1, ..."""
        names = mesh.mesh_dim_names or tuple(f"dim{d}" for d in range(mesh.ndim))
        return cls(
            names=tuple(Axis(name) for name in names),
            sizes=tuple(mesh.mesh.shape),
            ranks=tuple(mesh.mesh.flatten().tolist()),
        )

    def to_jax(
        self, devices: Collection[Any] | None = None, *, axis_type: AxisType = "auto"
    ) -> jax.sharding.Mesh:
        """jax's Mesh, where device r of `devices` is rank r; None means all devices of jax.

        `axis_type` holds for all axes; a sharding with unreduced axes needs explicit axes.
        """
        import jax
        import numpy as np

        available = list(jax.devices() if devices is None else devices)
        if max(self.ranks) >= len(available):
            raise ConversionError(
                f"the mesh has the rank {max(self.ranks)}, and jax has {len(available)} devices"
            )
        mesh_devices = np.array([available[rank] for rank in self.ranks], dtype=object)
        kind = {
            "auto": jax.sharding.AxisType.Auto,
            "explicit": jax.sharding.AxisType.Explicit,
        }[axis_type]
        return jax.sharding.Mesh(
            mesh_devices.reshape(self.sizes),
            tuple(self.names),
            axis_types=(kind,) * len(self.names),
        )

    @classmethod
    def from_jax(cls, mesh: jax.sharding.Mesh) -> DeviceGrid:
        """The grid of a jax Mesh; the ids of its devices are the ranks."""
        return cls(
            names=tuple(Axis(str(name)) for name in mesh.axis_names),
            sizes=tuple(mesh.devices.shape),
            ranks=tuple(device.id for device in mesh.devices.flat),
        )


def grid_of(mesh: Mesh, *, ranks_from: int = 0) -> DeviceGrid:
    """The grid of a mesh, with its axes in the same order; `ranks_from` is the first rank."""
    return DeviceGrid(
        names=mesh.names,
        sizes=tuple(axis.size for axis in mesh.axes),
        ranks=tuple(range(ranks_from, ranks_from + mesh.device_count)),
    )


def mesh_of(grid: DeviceGrid, *, levels: Mapping[str, str] | None = None) -> Mesh:
    """The mesh with the ranks of the grid; `levels` are the topology levels of its axes, by name.

    Raises ConversionError where no order of the dims counts the ranks contiguously.
    """
    strides = [math.prod(grid.sizes[d + 1 :]) for d in range(len(grid.sizes))]
    steps = [
        grid.ranks[stride] - grid.ranks[0] if size > 1 else stride
        for stride, size in zip(strides, grid.sizes, strict=True)
    ]
    order = sorted(range(len(steps)), key=lambda d: -steps[d])
    expected = {d: math.prod(grid.sizes[e] for e in order[k + 1 :]) for k, d in enumerate(order)}
    for position, rank in enumerate(grid.ranks):
        at = grid.coordinates(position)
        counted = sum(at[grid.names[d]] * step for d, step in expected.items())
        if rank != grid.ranks[0] + counted:
            raise ConversionError(
                f"the ranks {list(grid.ranks[:8])}… of a grid of {list(grid.sizes)} do not follow "
                f"from its dims: got rank {rank} at {dict(at)}, "
                f"expected {grid.ranks[0] + counted}; a mesh counts its ranks along its axes"
            )
    return Mesh(
        axes=tuple(
            MeshAxis(
                name=grid.names[d],
                size=grid.sizes[d],
                level=(levels or {}).get(grid.names[d], LEVEL),
            )
            for d in order
        )
    )
