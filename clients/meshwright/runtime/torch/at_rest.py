"""Shards as DTensors: what an optimizer, a checkpoint and a norm over all ranks know how to read.

Where one of a plan's layouts is none of DTensor's (segments of unequal lengths, each cut by itself)
or has two _StridedShard on one dim (2.13: `full_tensor` of two axes on a fused projection has other
values than were put in) all shards are plain tensors, as optimizers do not mix the two.
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
    """Makes of a rank's shard of a parameter, or of its gradient, what an optimizer works on."""

    def wrapped(self, name: str, local: T) -> T: ...


class AtRest:
    """Wraps the shards of a stage. groups: over each axis. why_plain: what keeps shards from being
    DTensors, if anything."""

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
                found = to_dtensor(layout, grid, name=name)
                inner = [own.dim for own in found.placements if own.split_factor > 1]
                if len(set(inner)) < len(inner):
                    raise ConversionError(
                        f"{name}: several axes cut inside the pieces of a dim, which this PyTorch "
                        "puts together in another order"
                    )
                self._placements[name] = found.to_torch()
        except ConversionError as why:
            self.why_plain = why.detail
            return
        if mesh.axes:
            self._mesh = grid.to_torch_over(groups, device_type)

    def wrapped(self, name: str, local: T) -> T:
        """A rank's shard of a parameter, or of its gradient."""
        if self._mesh is None:
            return local
        return DTensor.from_local(local, self._mesh, self._placements[name], run_check=False)


def local_of(tensor: T) -> T:
    """What the rank holds."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
