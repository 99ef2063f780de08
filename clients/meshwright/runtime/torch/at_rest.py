"""Shards at rest as DTensors, which optimizers, checkpoints and global norms can read.

All shards are plain tensors if DTensor cannot express one of the layouts, because optimizers do not
mix the two. DTensor cannot express segments of unequal lengths that are sharded separately. Two
_StridedShard on one dim are wrong in PyTorch 2.13: `full_tensor` returns other values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement

from meshwright.convert import grid_of, to_dtensor
from meshwright.schema import ConversionError, Layout, Mesh

T = torch.Tensor


class Wraps(Protocol):
    """A wrapper that converts a rank's shard of a parameter or gradient for the optimizer."""

    def wrapped(self, name: str, local: T) -> T: ...


class ShardWrapper:
    """The wrapper of the shards of a stage.

    `groups` are the process groups over each axis. `why_plain` is the reason for which shards are
    plain tensors, or empty.
    """

    def __init__(
        self,
        layouts: Mapping[str, Layout],
        mesh: Mesh,
        first: int,
        groups: Sequence[dist.ProcessGroup],
        device_type: str,
    ) -> None:
        self.why_plain = ""
        self._mesh: DeviceMesh | None = None
        self._placements: dict[str, tuple[Placement, ...]] = {}
        grid = grid_of(mesh, ranks_from=first)
        try:
            for name, layout in layouts.items():
                dtensor = to_dtensor(layout, grid, name=name)
                inner = [place.dim for place in dtensor.placements if place.split_factor > 1]
                if len(set(inner)) < len(inner):
                    raise ConversionError(
                        f"{name}: several axes cut inside the pieces of a dim, which this PyTorch "
                        "puts together in another order"
                    )
                self._placements[name] = dtensor.to_torch()
        except ConversionError as why:
            self.why_plain = why.detail
            return
        if mesh.axes:
            self._mesh = grid.to_torch_over(groups, device_type)

    def wrapped(self, name: str, local: T) -> T:
        """A rank's shard of a parameter or gradient, as a DTensor if possible."""
        if self._mesh is None:
            return local
        return DTensor.from_local(local, self._mesh, self._placements[name], run_check=False)


def local_of(tensor: T) -> T:
    """The local shard of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
