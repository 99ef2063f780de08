"""Repeats: spans of an integer sequence in which items one period apart are equal."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import IntArray

LEAST_REPEATS = 3  # chosen: reuse of the order of a block saves time from the third block on
_NEXT_ALIKE = 4  # chosen: number of later equal nodes that vote for a period
_PERIODS_TRIED = 8
_MOST_WORK = 64  # chosen: mean number of visits per node

Span = tuple[int, int, int]  # first item, items, period


def alike_spans(
    looks: IntArray, repeats: int = LEAST_REPEATS, longest_period: int | None = None
) -> list[tuple[int, int, int]]:
    """(first, length, period) of spans in which looks[i] == looks[i + period], in order.

    Every span has at least `repeats` repeats and at most the longest period. The search finds the
    longest span, then the longest on either side, and so on. A work limit ends the search, with the
    longest parts first.
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
    """(first, length) of all spans of one period with at least `repeats` repeats, in order.

    Two spans overlap by less than a period. The second of them begins after the first.
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
    """(first node, nodes, period) of the longest span; no nodes if there is none."""
    best = (0, 0, 0)
    for period in sorted(_likely_periods(part, longest)):
        first, length = _longest_true(part[period:] == part[:-period])
        if length + period > best[1] and length >= period * (repeats - 1):
            best = (first, length + period, period)
    return best


def _likely_periods(looks: IntArray, longest: int) -> list[int]:
    """Periods with the most pairs of equal nodes, none above the longest; of equal ones the
    shorter."""
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
    """(first, length) of the longest span of true flags."""
    firsts, lengths = _true_stretches(flags)
    if len(firsts) == 0:
        return 0, 0
    longest = int(lengths.argmax())
    return int(firsts[longest]), int(lengths[longest])


def _true_stretches(flags: NDArray[np.bool_]) -> tuple[IntArray, IntArray]:
    """First index and length of all spans of true flags, in order."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return edges[::2], edges[1::2] - edges[::2]
