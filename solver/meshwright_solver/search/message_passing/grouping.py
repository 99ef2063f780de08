"""Grouping of rows of numbers by equality."""

from __future__ import annotations

import numpy as np

from meshwright_solver.common.arrays import IntArray


def classes(*columns: IntArray) -> tuple[IntArray, IntArray]:
    """Classes of equal rows: the first place of each class, and the class of each row."""
    key = columns[0] - columns[0].min(initial=0)
    for column in columns[1:]:
        _, key = np.unique(key, return_inverse=True)
        low = column.min(initial=0)
        key = key * (column.max(initial=0) - low + 1) + (column - low)
    _, first, class_of = np.unique(key, return_index=True, return_inverse=True)
    return first.astype(np.int64), class_of.reshape(-1).astype(np.int64)


def by_number(numbers: IntArray) -> list[tuple[int, IntArray]]:
    """Every number and its places."""
    if not len(numbers):
        return []
    order = np.argsort(numbers, kind="stable")
    cuts = np.flatnonzero(np.diff(numbers[order])) + 1
    return [(int(numbers[places[0]]), places) for places in np.split(order, cuts)]
