"""What a device holds of a tensor, by brute force from the definition of layouts, and cases."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from meshwright.convert import DeviceGrid
from meshwright.schema import Axis, Dim, Layout, SubDim

Indices = NDArray[np.int64]


def held(layout: Layout, grid: DeviceGrid, position: int) -> Indices:
    """The elements, numbered row-major, that the device at a position of the grid holds."""
    at = grid.coordinates(position)
    own = [_of_dim(dim, grid, at) for dim in layout.dims]
    numbers = np.arange(math.prod(layout.shape)).reshape(layout.shape)
    return numbers[np.ix_(*own)] if own else numbers


def _of_dim(dim: Dim, grid: DeviceGrid, at: dict[Axis, int]) -> Indices:
    numbers = np.arange(dim.size)
    sizes = [part.size for part in dim.parts]
    if dim.segments:
        common = math.prod(sizes[:-1])
        pieces = np.split(numbers, np.cumsum(dim.segments)[:-1])
        numbers = np.concatenate([piece.reshape(common, -1) for piece in pieces], axis=1)
    numbers = numbers.reshape(sizes)
    for position, part in enumerate(dim.parts):
        index = 0
        for axis in part.axes:
            index = index * grid.size((axis,)) + at[axis]
        start, stop = part.chunk(index, grid.size(part.axes))
        numbers = np.take(numbers, range(start, stop), axis=position)
    return np.sort(numbers.ravel())


def grid(**sizes: int) -> DeviceGrid:
    """A grid of these dims, ranks from 0."""
    return DeviceGrid(
        names=tuple(Axis(name) for name in sizes),
        sizes=tuple(sizes.values()),
        ranks=tuple(range(math.prod(sizes.values()))),
    )


def random_grid(chance: random.Random, devices: int) -> DeviceGrid:
    """Axes a, b, ... of at least 2 devices each, in a random factorisation."""
    sizes: list[int] = []
    left = devices
    while left > 1:
        size = chance.choice([n for n in range(2, left + 1) if left % n == 0])
        sizes.append(size)
        left //= size
    return grid(**{"abcdefgh"[k]: size for k, size in enumerate(sizes)})


def random_layout(chance: random.Random, devices: DeviceGrid, *, uneven: float) -> Layout:
    """Up to three dims of up to three sub-dims; `uneven`: the share of sub-dims that are so."""
    places = [
        [[] for _ in range(chance.choice((1, 1, 2, 3)))] for _ in range(chance.choice((1, 2)))
    ]
    names = list(devices.names)
    chance.shuffle(names)
    partial: dict[Axis, str] = {}
    for name in names:
        kind = chance.random()
        if kind < 0.75:
            chance.choice(chance.choice(places)).append(name)
        elif kind < 0.85:
            partial[name] = chance.choice(("sum", "max"))
    dims = []
    for parts in places:
        own = [_sub_dim(chance, axes, devices.size(axes), uneven) for axes in parts]
        dims.append(Dim(parts=tuple(own), segments=_segments(chance, own)))
    return Layout(dims=tuple(dims), partial=partial, padded=chance.random() < 0.2)  # type: ignore[arg-type]


def _sub_dim(chance: random.Random, axes: Sequence[Axis], ways: int, uneven: float) -> SubDim:
    if chance.random() >= uneven or not axes:
        return SubDim(size=ways * chance.choice((1, 1, 2, 3)), axes=tuple(axes))
    if chance.random() < 0.8:
        span = ways * chance.choice((1, 2, 3))
        size = chance.randint(1, span)
        return SubDim(size=size, axes=tuple(axes), span=span if span > size else None)
    chunks = [chance.randint(0, 3) for _ in range(ways)]
    chunks[0] += 1
    return SubDim(size=sum(chunks), axes=tuple(axes), chunks=tuple(chunks))


def _segments(chance: random.Random, parts: Sequence[SubDim]) -> tuple[int, ...]:
    common, rest = math.prod(part.size for part in parts[:-1]), parts[-1].size
    if len(parts) == 1 or parts[-1].axes or rest < 2 or chance.random() < 0.5:
        return ()
    first = chance.randint(1, rest - 1)
    return common * first, common * (rest - first)
