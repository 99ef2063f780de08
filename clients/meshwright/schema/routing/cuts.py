"""Cuts: which indices of a tensor dim belong to which chunk of a layout, as runs.

A layout cuts a dim into `ways` chunks, numbered by the coordinates of its axes, first part and
slowest axis major. A chunk is a set of indices: one run where only the first part is split, many
where an inner one is. Two cuts of one dim overlap in the sets that both number alike; boxes of
these sets are all that two layouts can exchange.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np

from meshwright.schema import Dim, LayoutError, TooLarge
from meshwright.schema.arrays import IntArray
from meshwright.schema.transfer import Stretch

MAX_RUNS = 2**22  # chosen: 0.1 GB of work; only rows of huge tables dealt out singly come near


@dataclass(frozen=True)
class Cut:
    """A dim of `size` cut into `ways` chunks.

    starts, chunks: (runs,) the first index of each run, ascending from 0, and its chunk.
    """

    size: int
    ways: int
    starts: IntArray
    chunks: IntArray

    def lengths(self) -> IntArray:
        """(ways,) the number of indices of every chunk."""
        runs = np.diff(self.starts, append=self.size)
        found = np.zeros(self.ways, dtype=np.int64)
        np.add.at(found, self.chunks, runs)
        return found


@lru_cache(maxsize=512)
def cut_dim(dim: Dim, ways: tuple[int, ...]) -> Cut:
    """A dim whose parts are split so many ways each. Cached.

    LayoutError where chunks or segments do not fit, TooLarge beyond MAX_RUNS runs.
    """
    starts, chunks = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    length = inner = 1
    for part, way in zip(reversed(dim.parts), reversed(ways), strict=True):
        bounds = np.array([part.chunk(index, way) for index in range(way)], dtype=np.int64)
        widths = bounds[:, 1] - bounds[:, 0]
        if len(starts) == 1:
            kept = np.flatnonzero(widths)
            starts, chunks = bounds[kept, 0] * length, kept * inner + chunks[0]
        else:
            _check(part.size * len(starts), dim)
            owner = np.repeat(np.arange(way), widths)
            starts = (np.arange(part.size)[:, None] * length + starts).ravel()
            chunks = (owner[:, None] * inner + chunks).ravel()
        length, inner = length * part.size, inner * way
    if dim.segments:
        starts, chunks = _in_segments(dim, starts, chunks)
    first = np.concatenate(([True], chunks[1:] != chunks[:-1]))
    return Cut(dim.size, inner, starts[first], chunks[first])


def _in_segments(dim: Dim, starts: IntArray, chunks: IntArray) -> tuple[IntArray, IntArray]:
    """Runs of the parts form, in which segments alternate, as runs of the dim."""
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
    found = in_dim[block] + cuts - in_parts[block]
    order = np.argsort(found)
    return found[order], owner[order]


def _check(runs: int, dim: Dim) -> None:
    if runs > MAX_RUNS:
        raise TooLarge(
            f"a dim of {dim.size:,} is dealt out in {runs:,} runs; at most {MAX_RUNS:,} are moved. "
            "Split a part further out"
        )


@dataclass(frozen=True)
class Overlap:
    """What two cuts of a dim share.

    starts, lengths: (runs,) the runs of the refinement of both; source, target: their chunks.
    """

    source_ways: int
    target_ways: int
    starts: IntArray
    lengths: IntArray
    source: IntArray
    target: IntArray

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray]:
        """Pairs of chunks that share indices, as sorted keys, and how many they share."""
        keys = self.source * self.target_ways + self.target
        pairs, where = np.unique(keys, return_inverse=True)
        counts = np.zeros(len(pairs), dtype=np.int64)
        np.add.at(counts, where, self.lengths)
        return pairs, counts

    def shared(self, source: IntArray, target: IntArray) -> IntArray:
        """(pairs,) the number of indices that chunk source[i] and chunk target[i] share."""
        pairs, counts = self._pairs
        wanted = source * self.target_ways + target
        at = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
        return np.where(pairs[at] == wanted, counts[at], 0)

    @property
    def density(self) -> float:
        """The share of pairs of chunks that share indices."""
        return len(self._pairs[0]) / (self.source_ways * self.target_ways)

    def joined(self, source: IntArray, target: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """All pairs of source[i] and target[k] that share indices: i, k, and how many they share;
        ascending by i, then by chunk of the target."""
        pairs, counts = self._pairs
        first = np.searchsorted(pairs, source * self.target_ways)
        i, within = counted(np.searchsorted(pairs, (source + 1) * self.target_ways) - first)
        pair = first[i] + within
        order = np.argsort(target, kind="stable")
        wanted, ascending = pairs[pair] % self.target_ways, target[order]
        first = np.searchsorted(ascending, wanted)
        row, within = counted(np.searchsorted(ascending, wanted, side="right") - first)
        return i[row], order[first[row] + within], counts[pair[row]]

    def stretches(
        self, source: int, target: int, low: int = 0, high: int | None = None
    ) -> tuple[Stretch, ...]:
        """The indices that two chunks share, ascending; of these from the low-th to the high-th."""
        key = (source, target, low, high)
        if key not in self._stretches:
            inside = (self.source == source) & (self.target == target)
            starts, lengths = self.starts[inside], self.lengths[inside]
            ends = np.cumsum(lengths)
            skip = np.clip(low - (ends - lengths), 0, lengths)
            stop = lengths if high is None else np.clip(high - (ends - lengths), 0, lengths)
            kept = stop > skip
            self._stretches[key] = _stretches((starts + skip)[kept], (stop - skip)[kept])
        return self._stretches[key]

    @cached_property
    def _stretches(self) -> dict[tuple[int, int, int, int | None], tuple[Stretch, ...]]:
        return {}


@lru_cache(maxsize=512)
def overlap(
    source: Dim, source_ways: tuple[int, ...], target: Dim, target_ways: tuple[int, ...]
) -> Overlap:
    """What the chunks of one dim in two layouts share. Cached."""
    one, other = cut_dim(source, source_ways), cut_dim(target, target_ways)
    assert one.size == other.size
    starts = np.union1d(one.starts, other.starts)
    return Overlap(
        source_ways=one.ways,
        target_ways=other.ways,
        starts=starts,
        lengths=np.diff(starts, append=one.size),
        source=one.chunks[np.searchsorted(one.starts, starts, side="right") - 1],
        target=other.chunks[np.searchsorted(other.starts, starts, side="right") - 1],
    )


def _stretches(starts: IntArray, lengths: IntArray) -> tuple[Stretch, ...]:
    """Runs as progressions: neighbours are joined, equal ones at equal distances are one line."""
    joined: list[list[int]] = []
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        if joined and joined[-1][0] + joined[-1][1] == start:
            joined[-1][1] += length
        else:
            joined.append([start, length])
    found: list[list[int]] = []
    for start, length in joined:
        last = found[-1] if found else None
        if last and last[1] == length and (last[3] == 1 or start == last[0] + last[2] * last[3]):
            last[2] = last[2] or start - last[0]
            last[3] += 1
        else:
            found.append([start, length, 0, 1])
    return tuple(
        Stretch(first=first, length=length, step=step, count=count)
        for first, length, step, count in found
    )


def counted(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Every position as often as its count says, and the how manieth time."""
    position = np.repeat(np.arange(len(counts)), counts)
    return position, np.arange(len(position)) - np.repeat(np.cumsum(counts) - counts, counts)
