"""Cuts: the chunks of a tensor dim in a layout, as runs of indices.

A layout cuts a dim into `ways` chunks, numbered by the coordinates of its axes, with the first part
and the slowest axis major. A chunk is a set of indices: one run if only the first part is split,
several if an inner part is. The overlap of two cuts is the set of indices of each pair of chunks.
Two layouts exchange boxes of these sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np

from meshwright.common.arrays import IntArray
from meshwright.schema import Dim, LayoutError, TooLarge
from meshwright.schema.transfer import Stretch

MAX_RUNS = 2**22  # chosen: 0.1 GB of memory; only cyclic row sharding of huge tables comes near


@dataclass(frozen=True)
class DimChunks:
    """A dim of `size` cut into `ways` chunks.

    `starts` and `chunks` have the shape (runs,): the first index of each run, ascending from 0, and
    the chunk of the run.
    """

    size: int
    ways: int
    starts: IntArray
    chunks: IntArray

    def lengths(self) -> IntArray:
        """(ways,) The number of indices of every chunk."""
        runs = np.diff(self.starts, append=self.size)
        lengths = np.zeros(self.ways, dtype=np.int64)
        np.add.at(lengths, self.chunks, runs)
        return lengths


@lru_cache(maxsize=512)
def cut_dim(dim: Dim, ways: tuple[int, ...]) -> DimChunks:
    """The chunks of a dim; `ways` is the number of chunks of each sub-dim. Cached.

    Raises LayoutError if chunks or segments do not fit, and TooLarge above MAX_RUNS runs.
    """
    starts, chunks = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    length = inner = 1
    for part, way in zip(reversed(dim.parts), reversed(ways), strict=True):
        bounds = np.array([part.chunk(index, way) for index in range(way)], dtype=np.int64)
        widths = bounds[:, 1] - bounds[:, 0]
        if len(starts) == 1:
            nonempty = np.flatnonzero(widths)
            starts, chunks = bounds[nonempty, 0] * length, nonempty * inner + chunks[0]
        else:
            _check(part.size * len(starts), dim)
            owner = np.repeat(np.arange(way), widths)
            starts = (np.arange(part.size)[:, None] * length + starts).ravel()
            chunks = (owner[:, None] * inner + chunks).ravel()
        length, inner = length * part.size, inner * way
    if dim.segments:
        starts, chunks = _in_segments(dim, starts, chunks)
    first = np.concatenate(([True], chunks[1:] != chunks[:-1]))
    return DimChunks(dim.size, inner, starts[first], chunks[first])


def _in_segments(dim: Dim, starts: IntArray, chunks: IntArray) -> tuple[IntArray, IntArray]:
    """The runs of the dim, from the runs of its sub-dims, in which segments alternate."""
    common = prod(part.size for part in dim.parts[:-1])
    if any(length % common for length in dim.segments):
        raise LayoutError(
            f"segments of the lengths {list(dim.segments)} have no common factor {common}"
        )
    _check(common * len(dim.segments) + len(starts), dim)
    widths = np.array(dim.segments, dtype=np.int64) // common
    inside, row = np.cumsum(widths) - widths, int(widths.sum())
    major = np.arange(common)
    in_parts = (major[:, None] * row + inside).ravel()
    in_dim = (inside * common + major[:, None] * widths).ravel()
    cuts = np.union1d(starts, in_parts)
    owner = chunks[np.searchsorted(starts, cuts, side="right") - 1]
    block = np.searchsorted(in_parts, cuts, side="right") - 1
    positions = in_dim[block] + cuts - in_parts[block]
    order = np.argsort(positions)
    return positions[order], owner[order]


def _check(runs: int, dim: Dim) -> None:
    if runs > MAX_RUNS:
        raise TooLarge(
            f"a dim of {dim.size:,} has {runs:,} runs, more than the limit of {MAX_RUNS:,}. "
            "Split a part further out"
        )


@dataclass(frozen=True)
class Overlap:
    """The overlap of two cuts of a dim.

    The arrays have the shape (runs,). `starts` and `lengths` are the runs of the common refinement,
    `source` and `target` their chunks.
    """

    source_ways: int
    target_ways: int
    starts: IntArray
    lengths: IntArray
    source: IntArray
    target: IntArray

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray]:
        """(pairs,) The sorted keys of pairs of chunks that share indices, and the shared counts."""
        keys = self.source * self.target_ways + self.target
        pairs, where = np.unique(keys, return_inverse=True)
        counts = np.zeros(len(pairs), dtype=np.int64)
        np.add.at(counts, where, self.lengths)
        return pairs, counts

    def shared(self, source: IntArray, target: IntArray) -> IntArray:
        """(pairs,) The number of indices that chunk source[i] and chunk target[i] share."""
        pairs, counts = self._pairs
        keys = source * self.target_ways + target
        at = np.minimum(np.searchsorted(pairs, keys), len(pairs) - 1)
        return np.where(pairs[at] == keys, counts[at], 0)

    @property
    def density(self) -> float:
        """The share of pairs of chunks that share indices, 0 to 1."""
        return len(self._pairs[0]) / (self.source_ways * self.target_ways)

    def joined(self, source: IntArray, target: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The join of source[i] and target[k] over shared indices.

        Returns i, k and the number of shared indices, sorted by i, then by chunk of the target.
        """
        pairs, counts = self._pairs
        first = np.searchsorted(pairs, source * self.target_ways)
        i, within = counted(np.searchsorted(pairs, (source + 1) * self.target_ways) - first)
        pair = first[i] + within
        order = np.argsort(target, kind="stable")
        chunks, ascending = pairs[pair] % self.target_ways, target[order]
        first = np.searchsorted(ascending, chunks)
        row, within = counted(np.searchsorted(ascending, chunks, side="right") - first)
        return i[row], order[first[row] + within], counts[pair[row]]

    def stretches(
        self, source: int, target: int, low: int = 0, high: int | None = None
    ) -> tuple[Stretch, ...]:
        """The indices that two chunks share, ascending, from the low-th up to the high-th."""
        key = (source, target, low, high)
        if key not in self._stretches:
            inside = (self.source == source) & (self.target == target)
            starts, lengths = self.starts[inside], self.lengths[inside]
            ends = np.cumsum(lengths)
            skip = np.clip(low - (ends - lengths), 0, lengths)
            stop = lengths if high is None else np.clip(high - (ends - lengths), 0, lengths)
            nonempty = stop > skip
            self._stretches[key] = _stretches((starts + skip)[nonempty], (stop - skip)[nonempty])
        return self._stretches[key]

    @cached_property
    def _stretches(self) -> dict[tuple[int, int, int, int | None], tuple[Stretch, ...]]:
        return {}


@lru_cache(maxsize=512)
def overlap(
    source: Dim, source_ways: tuple[int, ...], target: Dim, target_ways: tuple[int, ...]
) -> Overlap:
    """The overlap of the chunks of one dim in two layouts. Cached."""
    before, after = cut_dim(source, source_ways), cut_dim(target, target_ways)
    assert before.size == after.size
    starts = np.union1d(before.starts, after.starts)
    return Overlap(
        source_ways=before.ways,
        target_ways=after.ways,
        starts=starts,
        lengths=np.diff(starts, append=before.size),
        source=before.chunks[np.searchsorted(before.starts, starts, side="right") - 1],
        target=after.chunks[np.searchsorted(after.starts, starts, side="right") - 1],
    )


def _stretches(starts: IntArray, lengths: IntArray) -> tuple[Stretch, ...]:
    """Runs as strided ranges: adjacent runs are merged, equal runs at equal distances combined."""
    runs: list[list[int]] = []
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        if runs and runs[-1][0] + runs[-1][1] == start:
            runs[-1][1] += length
        else:
            runs.append([start, length])
    ranges: list[list[int]] = []
    for start, length in runs:
        last = ranges[-1] if ranges else None
        if last and last[1] == length and (last[3] == 1 or start == last[0] + last[2] * last[3]):
            last[2] = last[2] or start - last[0]
            last[3] += 1
        else:
            ranges.append([start, length, 0, 1])
    return tuple(
        Stretch(first=first, length=length, step=step, count=count)
        for first, length, step, count in ranges
    )


def counted(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Each position repeated `counts[position]` times, and the index of the repetition.

    Both results have the shape (sum of counts,).
    """
    position = np.repeat(np.arange(len(counts)), counts)
    return position, np.arange(len(position)) - np.repeat(np.cumsum(counts) - counts, counts)
