"""Row templates: rows of equal things, computed once per content and copied for every thing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from meshwright_solver.common.arrays import IntArray

A = TypeVar("A")
Rows = Sequence[Sequence[int]]


@dataclass(slots=True)
class Contents(Generic[A]):
    """Distinct contents, computed once and numbered."""

    all: list[A] = field(default_factory=list)
    _numbers: dict[Hashable, int] = field(default_factory=dict)

    def number(self, content: Hashable, make: Callable[[], A]) -> int:
        number = self._numbers.get(content)
        if number is None:
            number = self._numbers[content] = len(self.all)
            self.all.append(make())
        return number


@dataclass(slots=True)
class Stamps:
    """Integer table with some rows for each of many things.

    Things of equal content have equal rows except in `columns`. These hold positions, each at the
    same index of the positions of the thing.
    """

    width: int
    columns: tuple[int, ...]
    # rows with indices into the positions of the thing
    _known: Contents[Rows] = field(default_factory=Contents)
    _contents: list[int] = field(default_factory=list)
    _positions: list[int] = field(default_factory=list)
    _counts: list[int] = field(default_factory=list)

    def add(self, content: Hashable, positions: Sequence[int], write: Callable[[], Rows]) -> None:
        """Add a thing.

        positions: the positions that its rows may contain. write: its rows, called if its content
        is new.
        """
        make = partial(self._write, write, positions)
        self._contents.append(self._known.number(content, make))
        self._positions += positions
        self._counts.append(len(positions))

    def written(self) -> tuple[IntArray, IntArray]:
        """All rows in order of things, and the number of the thing of each row."""
        lengths = np.array([len(rows) for rows in self._known.all], dtype=np.int64)
        rows = [row for block in self._known.all for row in block]
        table = np.array(rows, dtype=np.int64).reshape(-1, self.width)
        contents = np.array(self._contents, dtype=np.int64)
        counts = lengths[contents]
        things = np.repeat(np.arange(len(contents)), counts)
        of_thing = np.arange(len(things)) - _starts(counts)[things]
        stamped = table[_starts(lengths)[contents[things]] + of_thing]
        positions = np.array(self._positions, dtype=np.int64)
        first = _starts(np.array(self._counts, dtype=np.int64))[things]
        for column in self.columns:
            stamped[:, column] = positions[first + stamped[:, column]]
        return stamped, things

    def _write(self, write: Callable[[], Rows], positions: Sequence[int]) -> Rows:
        rows = [list(row) for row in write()]
        for row in rows:
            for column in self.columns:
                row[column] = positions.index(row[column])
        return rows


def _starts(lengths: IntArray) -> IntArray:
    """Start offset of each of consecutive blocks."""
    starts: IntArray = np.cumsum(lengths) - lengths
    return starts
