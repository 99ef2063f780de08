"""Runs: which indices of every dim of a tensor a rank holds, and what two holders share of it.

A rank stores its part with the indices of every dim ascending; but of a dim of segments whose last
sub-dim is cut, as it lies in parts form (`meshwright.runtime.parts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from meshwright.schema import Axis, Dim, Layout, LayoutError, Mesh
from meshwright.schema.arrays import IntArray
from meshwright.schema.routing.cuts import cut_dim


class Run(NamedTuple):
    """Indices of a dim, and where the first of them is in the part."""

    start: int
    stop: int
    at: int


Runs = tuple[Run, ...]  # of one dim, ascending


class Shared(NamedTuple):
    """A box that two hold: where it is in the part of each."""

    source: tuple[slice, ...]
    target: tuple[slice, ...]


def runs_of(layout: Layout, mesh: Mesh, rank: int) -> tuple[Runs, ...]:
    """What a rank of the mesh holds, dim by dim; LayoutError of what is padded or partial."""
    if layout.padded or layout.partial:
        raise LayoutError(f"{layout} is padded or partial, as no checkpoint keeps tensors")
    at = mesh.coordinates(rank)
    found = []
    for dim in layout.dims:
        if dim.segments and dim.parts[-1].axes:
            found.append(_in_parts(dim, mesh, at))
            continue
        index = 0
        for axis in dim.axes:
            index = index * mesh.size((axis,)) + at[axis]
        cut = cut_dim(dim, tuple(mesh.size(part.axes) for part in dim.parts))
        mine = np.flatnonzero(cut.chunks == index)
        found.append(_runs(cut.starts[mine], np.append(cut.starts[1:], cut.size)[mine]))
    return tuple(found)


def whole(shape: Sequence[int]) -> tuple[Runs, ...]:
    """All of a tensor."""
    return tuple((Run(0, size, 0),) for size in shape)


def _in_parts(dim: Dim, mesh: Mesh, at: Mapping[Axis, int]) -> Runs:
    """As it lies in parts form: the factor that the segments have in common is major."""
    places = np.zeros(1, dtype=np.int64)
    for part in dim.parts:
        index = 0
        for axis in part.axes:
            index = index * mesh.size((axis,)) + at[axis]
        start, stop = part.chunk(index, mesh.size(part.axes))
        places = (places[:, None] * part.size + np.arange(start, stop)).ravel()
    row = dim.parts[-1].size
    common = dim.size // row
    widths = np.array(dim.segments, dtype=np.int64) // common
    before = np.cumsum(widths) - widths
    major, minor = places // row, places % row
    segment = np.searchsorted(before, minor, side="right") - 1
    held = before[segment] * common + major * widths[segment] + minor - before[segment]
    begins = np.flatnonzero(np.append(True, np.diff(held) != 1))
    lengths = np.diff(begins, append=len(held))
    order = np.argsort(held[begins])
    begins, lengths = begins[order], lengths[order]
    starts = held[begins]
    return tuple(map(Run, starts.tolist(), (starts + lengths).tolist(), begins.tolist()))


def _runs(starts: IntArray, stops: IntArray) -> Runs:
    """One behind the other."""
    lengths = stops - starts
    return tuple(map(Run, starts.tolist(), stops.tolist(), (np.cumsum(lengths) - lengths).tolist()))


def boxes(runs: Sequence[Runs]) -> Iterator[Shared]:
    """What is held, box by box: `source` in the whole tensor, `target` in the part."""
    yield from shared(tuple(whole((dim[-1].stop if dim else 0,))[0] for dim in runs), runs)


def shared(source: Sequence[Runs], target: Sequence[Runs]) -> Iterator[Shared]:
    """The boxes that two parts of one tensor have in common."""
    for box in product(*(list(_common(a, b)) for a, b in zip(source, target, strict=True))):
        yield Shared(
            tuple(slice(a, a + n) for a, _, n in box), tuple(slice(b, b + n) for _, b, n in box)
        )


def _common(source: Runs, target: Runs) -> Iterator[tuple[int, int, int]]:
    """Stretches of shared indices: where they begin in either part, and how many they are."""
    i = j = 0
    last: tuple[int, int, int] | None = None
    while i < len(source) and j < len(target):
        a, b = source[i], target[j]
        start, stop = max(a.start, b.start), min(a.stop, b.stop)
        if start < stop:
            one = (a.at + start - a.start, b.at + start - b.start, stop - start)
            if last is not None and all(last[k] + last[2] == one[k] for k in (0, 1)):
                last = (last[0], last[1], last[2] + one[2])
            else:
                if last is not None:
                    yield last
                last = one
        i, j = i + (a.stop <= b.stop), j + (b.stop <= a.stop)
    if last is not None:
        yield last
