"""Repeats: stretches of a sequence of numbers in which items a period apart are equal."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import IntArray

LEAST_REPEATS = 3  # chosen: an order found for one block pays from the third on
_NEXT_ALIKE = 4  # chosen: how many later nodes that look alike vote for a period
_PERIODS_TRIED = 8
_MOST_WORK = 64  # chosen: so many looks at every node, on the mean

Span = tuple[int, int, int]  # first item, items, period


def alike_spans(
    looks: IntArray, repeats: int = LEAST_REPEATS, longest_period: int | None = None
) -> list[tuple[int, int, int]]:
    """(first, length, period) of stretches in which looks[i] == looks[i + period], in order.

    Each of at least so many repeats, none of a longer period: the longest of all, then the longest
    on either side of it, and so on. In a graph without end to its short repeats the search ends,
    the longest parts first.
    """
    longest = len(looks) if longest_period is None else longest_period
    spans = []
    parts = [(-len(looks), 0)]
    work = _MOST_WORK * len(looks)
    while parts and work > 0:
        size, start = heapq.heappop(parts)
        stop = start - size
        work -= stop - start
        first, length, period = _longest_run(looks[start:stop], repeats, longest)
        if length == 0:
            continue
        spans.append((start + first, length, period))
        for left, right in ((start, start + first), (start + first + length, stop)):
            if right - left >= repeats:
                heapq.heappush(parts, (left - right, left))
    return sorted(spans)


def stretches_of(looks: IntArray, period: int, repeats: int) -> list[tuple[int, int]]:
    """(first, length) of all stretches of one period, of at least so many repeats, in order.

    Where two overlap, which they do by less than a period, the second begins behind the first.
    """
    stretches: list[tuple[int, int]] = []
    stop = 0
    firsts, lengths = _true_stretches(looks[period:] == looks[:-period])
    for first, length in zip(firsts.tolist(), lengths.tolist(), strict=True):
        start = max(first, stop)
        if first + length + period - start >= period * repeats:
            stop = first + length + period
            stretches.append((start, stop - start))
    return stretches


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
