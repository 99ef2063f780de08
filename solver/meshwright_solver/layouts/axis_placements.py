"""Placements: rows of one code per mesh axis whose axes divide the lengths that they cut.

A code names the lengths that an axis cuts: one, several or none. A row is valid where every length
is divisible by the product of the axes on it. Rows are in lexicographic order of their codes.

The enumeration goes axis by axis and extends valid rows only: a length that is not divisible by
some of its axes is not divisible by more. Only the common divisors of lengths and mesh matter, so
one enumeration serves all values and ops with equal cuts.
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
    """All valid rows, (rows, axes); equal calls share the array, so it must not be written to.

    codes: the codes that an axis may have, ascending; an axis of size 1 has `idle`. lies_on: by
    code, the lengths that an axis with it cuts.
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
        allowed = codes if size > 1 else (idle,)
        cuts = np.ones((len(allowed), len(lengths)), dtype=np.int64)
        for row, code in zip(cuts, allowed, strict=True):
            row[list(lies_on[code])] = size
        products = ways[:, None, :] * cuts
        before, after = np.nonzero((whole % products == 0).all(axis=2))
        rows = np.concatenate(
            [rows[before], np.array(allowed, dtype=np.int64)[after, None]], axis=1
        )
        ways = products[before, after]
    return rows
