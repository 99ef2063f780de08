"""Repeated blocks, found by structure: a run of nodes where node i and node i + period look alike.

Two nodes look alike when they and their edges hold the same array objects. A run is cut where the
narrowest set of nodes reads across the cut. What is found here only guides the order of
elimination; that repeats are solved once follows from the numbering of tables, whatever the order.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.cost_graph import CostGraph, IntArray

_LEAST_REPEATS = 3  # chosen: an order found for one block pays from the third on
_NEXT_ALIKE = 4  # chosen: how many later nodes that look alike vote for a period
_PERIODS_TRIED = 8
_MOST_WORK = 64  # chosen: so many looks at every node, on the mean


@dataclass(frozen=True, slots=True)
class Run:
    """Blocks of `period` nodes, the first at `start`; the next block reads offsets `boundary`."""

    start: int
    period: int
    repeats: int
    boundary: frozenset[int]

    def interior(self, repeat: int) -> list[int]:
        first = self.start + repeat * self.period
        return [first + offset for offset in range(self.period) if offset not in self.boundary]


Span = tuple[int, int, int]  # first node, nodes, period


def find_runs(graph: CostGraph) -> list[Run]:
    spans = alike_spans(_looks(graph)) if graph.spans is None else _apart(graph.spans)
    return [run for span in spans if (run := _cut(graph, *span)) is not None]


def _apart(spans: Sequence[Span]) -> list[Span]:
    """Of spans within each other those with which fewest nodes have to be looked at, in order."""
    found: list[Span] = []
    left = sorted(spans, key=lambda span: (span[0], -span[1]))
    while left:
        first, length, period = left[0]
        count = sum(start < first + length for start, _, _ in left)
        inside = _apart(left[1:count])
        apart = length - sum(length - period for _, length, period in inside)
        found += inside if apart < period else [left[0]]
        left = left[count:]
    return found


def alike_spans(
    looks: IntArray, repeats: int = _LEAST_REPEATS, longest_period: int | None = None
) -> list[tuple[int, int, int]]:
    """(first, length, period) of stretches in which looks[i] == looks[i + period], in order.

    Each of at least so many repeats, none of a longer period: the longest of all, then the longest
    on either side of it, and so on. In a graph without end to its short repeats the search ends,
    the longest parts first.
    """
    longest = len(looks) if longest_period is None else longest_period
    found = []
    parts = [(-len(looks), 0)]
    work = _MOST_WORK * len(looks)
    while parts and work > 0:
        size, start = heapq.heappop(parts)
        stop = start - size
        work -= stop - start
        first, length, period = _longest_run(looks[start:stop], repeats, longest)
        if length == 0:
            continue
        found.append((start + first, length, period))
        for left, right in ((start, start + first), (start + first + length, stop)):
            if right - left >= repeats:
                heapq.heappush(parts, (left - right, left))
    return sorted(found)


def _looks(graph: CostGraph) -> IntArray:
    """One number a node; equal numbers look alike."""
    nodes, edges = graph.kinds
    tails, heads = graph.ends
    # the edges of a node in any order: a sum of scrambled numbers, of which no two are likely equal
    around = _scrambled(nodes)
    np.add.at(around, tails, _scrambled(2 * edges + 1 << 32))
    np.add.at(around, heads, _scrambled(2 * edges + 2 << 32))
    _, found = np.unique(around, return_inverse=True)
    return found.astype(np.int64)


def _scrambled(numbers: IntArray) -> NDArray[np.uint64]:
    """Every number to one that looks random: the finisher of SplitMix64 (Steele et al. 2014)."""
    x = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def stretches_of(looks: IntArray, period: int, repeats: int) -> list[tuple[int, int]]:
    """(first, length) of all stretches of one period, of at least so many repeats, in order.

    Where two overlap, which they do by less than a period, the second begins behind the first.
    """
    found: list[tuple[int, int]] = []
    stop = 0
    firsts, lengths = _true_stretches(looks[period:] == looks[:-period])
    for first, length in zip(firsts.tolist(), lengths.tolist(), strict=True):
        start = max(first, stop)
        if first + length + period - start >= period * repeats:
            stop = first + length + period
            found.append((start, stop - start))
    return found


def _longest_run(part: IntArray, repeats: int, longest: int) -> tuple[int, int, int]:
    """(first node, nodes, period) of the longest run; no nodes where there is none."""
    best = (0, 0, 0)
    for period in sorted(_likely_periods(part, longest)):
        first, length = _longest_true(part[period:] == part[:-period])
        if length + period > best[1] and length >= period * (repeats - 1):
            best = (first, length + period, period)
    return best


def _likely_periods(looks: IntArray, longest: int) -> list[int]:
    """Those for which most pairs of nodes vote; of equals the shorter, none above the longest."""
    order = np.argsort(looks, kind="stable")
    votes = np.zeros(len(looks), dtype=np.int64)
    for later in range(1, _NEXT_ALIKE + 1):
        before, after = order[:-later], order[later:]
        alike = looks[before] == looks[after]
        votes += np.bincount((after - before)[alike], minlength=len(looks))
    votes[longest + 1 :] = 0
    most = np.argsort(-votes, kind="stable")[:_PERIODS_TRIED]
    return [period for period in most.tolist() if votes[period]]


def _longest_true(flags: NDArray[np.bool_]) -> tuple[int, int]:
    """(first, length) of the longest stretch of what is true."""
    firsts, lengths = _true_stretches(flags)
    if len(firsts) == 0:
        return 0, 0
    longest = int(lengths.argmax())
    return int(firsts[longest]), int(lengths[longest])


def _true_stretches(flags: NDArray[np.bool_]) -> tuple[IntArray, IntArray]:
    """Firsts and lengths of all of them, in order."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return edges[::2], edges[1::2] - edges[::2]


def _cut(graph: CostGraph, first: int, length: int, period: int) -> Run | None:
    """The run cut where fewest states read across; None where fewer than three blocks remain."""
    middle = first + (length // period // 2) * period
    tails, heads = _pairs_around(
        graph, max(first, middle - 2 * period), min(first + length, middle + 2 * period)
    )
    extents = graph.extents
    best: tuple[float, int, frozenset[int]] | None = None
    for cut in range(middle, middle + period):
        crossing = np.unique(tails[(tails < cut) & (cut <= heads)])
        if (crossing < cut - period).any():
            continue
        weight = float(math.prod(extents[crossing].tolist()))
        if best is None or weight < best[0]:
            best = (weight, cut, frozenset((crossing - (cut - period)).tolist()))
    if best is None:
        return None
    start = best[1] - (best[1] - first) // period * period
    repeats = (first + length - start) // period
    return Run(start, period, repeats, best[2]) if repeats >= _LEAST_REPEATS else None


def _pairs_around(graph: CostGraph, start: int, stop: int) -> tuple[IntArray, IntArray]:
    """Earlier and later nodes of the edges within nodes start to stop."""
    tails, heads = graph.ends
    low, high = np.minimum(tails, heads), np.maximum(tails, heads)
    inside = (start <= low) & (high < stop)
    return low[inside], high[inside]
