"""Repeated blocks, found by structure: a run of nodes where node i and node i + period look alike.

Two nodes look alike when they and their edges hold the same array objects. A run is cut where the
fewest states are read across the cut. The runs only guide the order of elimination: repeats are
solved once because their tables have equal numbers, whatever the order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.repeats import LEAST_REPEATS, Span, alike_spans
from meshwright_solver.search.core.cost_graph import CostGraph


@dataclass(frozen=True, slots=True)
class RepeatedBlock:
    """Blocks of `period` nodes, the first at `start`; the next block reads offsets `boundary`."""

    start: int
    period: int
    repeats: int
    boundary: frozenset[int]

    def interior(self, repeat: int) -> list[int]:
        first = self.start + repeat * self.period
        return [first + offset for offset in range(self.period) if offset not in self.boundary]


def find_runs(graph: CostGraph) -> list[RepeatedBlock]:
    spans = alike_spans(_looks(graph)) if graph.spans is None else _apart(graph.spans)
    return [run for span in spans if (run := _cut(graph, *span)) is not None]


def _apart(spans: Sequence[Span]) -> list[Span]:
    """The nested or single spans that leave the fewest nodes to examine, in order."""
    selected: list[Span] = []
    remaining = sorted(spans, key=lambda span: (span[0], -span[1]))
    while remaining:
        first, length, period = remaining[0]
        count = sum(start < first + length for start, _, _ in remaining)
        inside = _apart(remaining[1:count])
        apart = length - sum(length - period for _, length, period in inside)
        selected += inside if apart < period else [remaining[0]]
        remaining = remaining[count:]
    return selected


def _looks(graph: CostGraph) -> IntArray:
    """A number for every node; nodes with equal numbers look alike."""
    nodes, edges = graph.kinds
    tails, heads = graph.ends
    # the edges of a node in any order: a sum of hashed numbers, which are hardly ever equal
    around = _scrambled(nodes)
    np.add.at(around, tails, _scrambled(2 * edges + 1 << 32))
    np.add.at(around, heads, _scrambled(2 * edges + 2 << 32))
    _, numbers = np.unique(around, return_inverse=True)
    return numbers.astype(np.int64)


def _scrambled(numbers: IntArray) -> NDArray[np.uint64]:
    """A pseudo-random number for each number: the finisher of SplitMix64 (Steele et al. 2014)."""
    x = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _cut(graph: CostGraph, first: int, length: int, period: int) -> RepeatedBlock | None:
    """The run, cut where the fewest states are read across; None for fewer than three blocks."""
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
    return RepeatedBlock(start, period, repeats, best[2]) if repeats >= LEAST_REPEATS else None


def _pairs_around(graph: CostGraph, start: int, stop: int) -> tuple[IntArray, IntArray]:
    """Earlier and later nodes of the edges within nodes start to stop."""
    tails, heads = graph.ends
    low, high = np.minimum(tails, heads), np.maximum(tails, heads)
    inside = (start <= low) & (high < stop)
    return low[inside], high[inside]
