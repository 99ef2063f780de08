"""Index runs: the indices of every dim of a tensor on a rank, and the overlap of two ranks.

A rank stores its part with the indices of every dim in ascending order. The exception is a dim of
segments whose last sub-dim is sharded: it is in parts form (`meshwright.runtime.local_slices`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from meshwright.common.arrays import IntArray
from meshwright.schema import Axis, Dim, Layout, LayoutError, Mesh
from meshwright.transfers.cuts import cut_dim


class IndexRun(NamedTuple):
    """A run of indices of a dim, and the position of its first index in the part."""

    start: int
    stop: int
    at: int


Runs = tuple[IndexRun, ...]  # of one dim, ascending


class SharedBox(NamedTuple):
    """A box that two parts share: its slices in each of them."""

    source: tuple[slice, ...]
    target: tuple[slice, ...]


def runs_of(layout: Layout, mesh: Mesh, rank: int) -> tuple[Runs, ...]:
    """The runs of a rank of the mesh, by dim; raises LayoutError for a padded or partial layout."""
    if layout.padded or layout.partial:
        raise LayoutError(f"{layout} is padded or partial, which checkpoints do not support")
    at = mesh.coordinates(rank)
    runs = []
    for dim in layout.dims:
        if dim.segments and dim.parts[-1].axes:
            runs.append(_in_parts(dim, mesh, at))
            continue
        index = 0
        for axis in dim.axes:
            index = index * mesh.size((axis,)) + at[axis]
        cut = cut_dim(dim, tuple(mesh.size(part.axes) for part in dim.parts))
        local = np.flatnonzero(cut.chunks == index)
        runs.append(_runs(cut.starts[local], np.append(cut.starts[1:], cut.size)[local]))
    return tuple(runs)


def whole(shape: Sequence[int]) -> tuple[Runs, ...]:
    """The runs of a whole tensor."""
    return tuple((IndexRun(0, size, 0),) for size in shape)


def _in_parts(dim: Dim, mesh: Mesh, at: Mapping[Axis, int]) -> Runs:
    """The runs of a dim in parts form, in which the common factor of the segments is major."""
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
    return tuple(map(IndexRun, starts.tolist(), (starts + lengths).tolist(), begins.tolist()))


def _runs(starts: IntArray, stops: IntArray) -> Runs:
    """The runs of a part that stores them one after the other."""
    lengths = stops - starts
    return tuple(
        map(IndexRun, starts.tolist(), stops.tolist(), (np.cumsum(lengths) - lengths).tolist())
    )


def boxes(runs: Sequence[Runs]) -> Iterator[SharedBox]:
    """The boxes of a part: `source` in the whole tensor, `target` in the part."""
    yield from shared(tuple(whole((dim[-1].stop if dim else 0,))[0] for dim in runs), runs)


def shared(source: Sequence[Runs], target: Sequence[Runs]) -> Iterator[SharedBox]:
    """The boxes that two parts of one tensor share."""
    for box in product(*(list(_common(a, b)) for a, b in zip(source, target, strict=True))):
        yield SharedBox(
            tuple(slice(a, a + n) for a, _, n in box), tuple(slice(b, b + n) for _, b, n in box)
        )


def _common(source: Runs, target: Runs) -> Iterator[tuple[int, int, int]]:
    """The ranges of shared indices: their starts in both parts, and their lengths."""
    i = j = 0
    last: tuple[int, int, int] | None = None
    while i < len(source) and j < len(target):
        a, b = source[i], target[j]
        start, stop = max(a.start, b.start), min(a.stop, b.stop)
        if start < stop:
            run = (a.at + start - a.start, b.at + start - b.start, stop - start)
            if last is not None and all(last[k] + last[2] == run[k] for k in (0, 1)):
                last = (last[0], last[1], last[2] + run[2])
            else:
                if last is not None:
                    yield last
                last = run
        i, j = i + (a.stop <= b.stop), j + (b.stop <= a.stop)
    if last is not None:
        yield last
