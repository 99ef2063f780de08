"""Which axes may lie where: rows of one code per mesh axis whose axes divide what they cut.

A code says on which of some lengths an axis lies: one, several or none. A row is valid where every
length divides by the product of the axes on it. Rows come in lexicographic order of their codes.

Enumerated axis by axis: what does not divide by some of its axes does not divide by more, so that
no row is made of a start that is not valid. Lengths count only by what they share with the mesh,
so that one enumeration serves all values and ops that can be cut alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd, prod

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def placements(
    codes: Sequence[int],
    idle: int,
    lies_on: tuple[tuple[int, ...], ...],
    lengths: Sequence[int],
    axis_sizes: tuple[int, ...],
) -> Rows:
    """All valid rows, (rows, axes); shared by equal calls: not to be written to.

    codes: that an axis may have, ascending; one of size 1 has `idle`. lies_on: by code, the lengths
    that an axis with it cuts.
    """
    everyone = prod(axis_sizes)
    shared = tuple([gcd(length, everyone) for length in lengths])
    return _placements(tuple(codes), idle, lies_on, shared, axis_sizes)


@lru_cache(maxsize=1024)
def _placements(
    codes: tuple[int, ...],
    idle: int,
    lies_on: tuple[tuple[int, ...], ...],
    lengths: tuple[int, ...],
    axis_sizes: tuple[int, ...],
) -> Rows:
    rows: Rows = np.zeros((1, 0), dtype=np.int64)
    ways: Rows = np.ones((1, len(lengths)), dtype=np.int64)
    whole = np.array(lengths, dtype=np.int64)
    for size in axis_sizes:
        own = codes if size > 1 else (idle,)
        cuts = np.ones((len(own), len(lengths)), dtype=np.int64)
        for row, code in zip(cuts, own, strict=True):
            row[list(lies_on[code])] = size
        made = ways[:, None, :] * cuts
        before, after = np.nonzero((whole % made == 0).all(axis=2))
        rows = np.concatenate([rows[before], np.array(own, dtype=np.int64)[after, None]], axis=1)
        ways = made[before, after]
    return rows
