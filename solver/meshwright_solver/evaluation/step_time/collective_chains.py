"""Chains: sequences of collectives as arrays, one per distinct content."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.layouts.redistribution import LayoutStep
from meshwright_solver.strategies.fusion import BUCKET_BYTES

NOTHING = 0  # the chain without hops


class Hop(NamedTuple):
    """Collective of a chain.

    link: the slowest level that it crosses, by position. buckets: number of equal parts that run in
    sequence, for parameters and gradients.
    """

    link: int
    ns: float
    buckets: int


class Chains(NamedTuple):
    """Hops of all chains. Chain c has the hops first[c] to first[c + 1]."""

    first: IntArray
    link: IntArray
    ns: FloatArray
    buckets: IntArray


class ChainWriter:
    """Numbering of chains. links: the level of every mesh axis."""

    def __init__(self, links: tuple[int, ...]) -> None:
        self._links = links
        self._numbers: dict[tuple[Hop, ...], int] = {(): NOTHING}

    def of(self, hops: Iterable[Hop]) -> int:
        """Number of a chain. Hops without duration are dropped."""
        return self._numbers.setdefault(
            tuple([hop for hop in hops if hop.ns > 0]), len(self._numbers)
        )

    def of_path(self, path: Iterable[LayoutStep]) -> int:
        return self.of(
            [
                Hop(
                    self.link(move.axes),
                    move.ns,
                    max(1, -(-round(move.payload_bytes) // BUCKET_BYTES)),
                )
                for move in path
                if move.ns > 0
            ]
        )

    def link(self, axes: Iterable[int]) -> int:
        return min(self._links[axis] for axis in axes)

    def written(self) -> Chains:
        """Arrays of all chains so far."""
        lengths = [len(hops) for hops in self._numbers]
        rows = [hop for hops in self._numbers for hop in hops]
        return Chains(
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            np.array([hop.link for hop in rows], dtype=np.int64),
            np.array([hop.ns for hop in rows], dtype=np.float64),
            np.array([hop.buckets for hop in rows], dtype=np.int64),
        )
