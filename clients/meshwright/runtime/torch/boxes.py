"""Boxes: pieces of a transfer as places in what a rank holds of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from meshwright.schema import Layout, Mesh
from meshwright.schema.arrays import IntArray
from meshwright.schema.rank_strategy import Site
from meshwright.schema.routing.cuts import cut_dim
from meshwright.schema.transfer import Piece, Stretch

T = torch.Tensor


@dataclass(frozen=True, slots=True)
class Box:
    """A piece as a place in what this rank holds; peer: who has the other end."""

    peer: int
    place: tuple[T, ...]
    shape: tuple[int, ...]

    def of(self, local: T) -> T:
        return local[self.place].contiguous()


@dataclass(frozen=True, slots=True)
class Held:
    """The indices of every dim of the whole tensor that a rank holds, ascending."""

    indices: tuple[IntArray, ...]

    @classmethod
    def of(cls, layout: Layout, site: Site, rank: int) -> Held | None:
        """None where the rank is not of this stage."""
        place = rank - site.ranks_from
        if not 0 <= place < site.mesh.device_count:
            return None
        return cls(_indices(layout, site.mesh, place))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(own) for own in self.indices)

    def box(self, piece: Piece, peer: int) -> Box:
        """A piece of the tensor, all of which is held here."""
        wanted = [_of_stretches(own) for own in piece.dims]
        places = [
            torch.from_numpy(np.searchsorted(own, indices))
            for own, indices in zip(self.indices, wanted, strict=True)
        ]
        count = len(places)
        shaped = tuple(
            own.reshape([-1 if d == k else 1 for d in range(count)]) for k, own in enumerate(places)
        )
        return Box(peer, shaped, tuple(len(own) for own in places))


def _indices(layout: Layout, mesh: Mesh, place: int) -> tuple[IntArray, ...]:
    at = mesh.coordinates(place)
    found = []
    for dim in layout.dims:
        cut = cut_dim(dim, tuple(mesh.size(part.axes) for part in dim.parts))
        chunk = 0
        for axis in dim.axes:
            chunk = chunk * mesh.size((axis,)) + at[axis]
        ends = np.append(cut.starts[1:], cut.size)
        own = cut.chunks == chunk
        found.append(_runs(cut.starts[own], ends[own]))
    return tuple(found)


def _of_stretches(stretches: Sequence[Stretch]) -> IntArray:
    starts = np.concatenate([own.first + own.step * np.arange(own.count) for own in stretches])
    lengths = np.concatenate([np.full(own.count, own.length) for own in stretches])
    return np.sort(_runs(starts, starts + lengths))


def _runs(starts: IntArray, ends: IntArray) -> IntArray:
    return np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])
