"""Tensor boxes: pieces of a transfer as index arrays into local shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from meshwright.common.arrays import IntArray
from meshwright.schema import Layout, Mesh
from meshwright.schema.rank_strategy import Site
from meshwright.schema.transfer import Piece, Stretch
from meshwright.transfers.cuts import cut_dim

T = torch.Tensor


@dataclass(frozen=True, slots=True)
class LocalBox:
    """A piece as a box of this rank's shard. `peer` is the rank at the other end."""

    peer: int
    place: tuple[T, ...]
    shape: tuple[int, ...]

    def of(self, local: T) -> T:
        return local[self.place].contiguous()


@dataclass(frozen=True, slots=True)
class Held:
    """A rank's shard as the ascending indices of every dim in the whole tensor."""

    indices: tuple[IntArray, ...]

    @classmethod
    def of(cls, layout: Layout, site: Site, rank: int) -> Held | None:
        """The shard of a rank; None if the rank is not in this stage."""
        place = rank - site.ranks_from
        if not 0 <= place < site.mesh.device_count:
            return None
        return cls(_indices(layout, site.mesh, place))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(indices) for indices in self.indices)

    def box(self, piece: Piece, peer: int) -> LocalBox:
        """The box of a piece that is contained in the shard."""
        indices = [_of_stretches(stretches) for stretches in piece.dims]
        places = [
            torch.from_numpy(np.searchsorted(local, of_piece))
            for local, of_piece in zip(self.indices, indices, strict=True)
        ]
        count = len(places)
        index = tuple(
            place.reshape([-1 if d == k else 1 for d in range(count)])
            for k, place in enumerate(places)
        )
        return LocalBox(peer, index, tuple(len(place) for place in places))


def _indices(layout: Layout, mesh: Mesh, place: int) -> tuple[IntArray, ...]:
    at = mesh.coordinates(place)
    indices = []
    for dim in layout.dims:
        cut = cut_dim(dim, tuple(mesh.size(part.axes) for part in dim.parts))
        chunk = 0
        for axis in dim.axes:
            chunk = chunk * mesh.size((axis,)) + at[axis]
        ends = np.append(cut.starts[1:], cut.size)
        is_local = cut.chunks == chunk
        indices.append(_runs(cut.starts[is_local], ends[is_local]))
    return tuple(indices)


def _of_stretches(stretches: Sequence[Stretch]) -> IntArray:
    starts = np.concatenate([run.first + run.step * np.arange(run.count) for run in stretches])
    lengths = np.concatenate([np.full(run.count, run.length) for run in stretches])
    return np.sort(_runs(starts, starts + lengths))


def _runs(starts: IntArray, ends: IntArray) -> IntArray:
    return np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])
