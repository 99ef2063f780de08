"""Shared sequences: many equal items stored once and created on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Generic, TypeVar, overload

import numpy as np

from meshwright_solver.common.arrays import IntArray

T = TypeVar("T")


class Repeated(Sequence[T], Generic[T]):
    """Immutable sequence. Item k is created from parts[numbers[k]]."""

    def __init__(self, parts: Sequence[T], numbers: IntArray) -> None:
        self.parts = parts
        self.numbers = numbers

    def _made(self, part: T, place: int) -> T:
        """Item at a place, from its part."""
        del place
        return part

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return self._all[index]
        if "_all" in self.__dict__:
            return self._all[index]
        place = range(len(self.numbers))[index]
        return self._made(self.parts[self.numbers[place]], place)

    def __iter__(self) -> Iterator[T]:
        return iter(self._all)

    @cached_property
    def _all(self) -> tuple[T, ...]:
        """All items, cached: a caller that iterates once usually iterates again."""
        item_at, parts = self._made, self.parts
        return tuple([item_at(parts[k], place) for place, k in enumerate(self.numbers.tolist())])


def parts_of(items: Sequence[T]) -> tuple[Sequence[T], IntArray]:
    """Parts of the items, and the index of the part of each item."""
    if isinstance(items, Repeated):
        return items.parts, items.numbers
    return items, np.arange(len(items), dtype=np.int64)


def firsts(numbers: IntArray) -> IntArray:
    """First index of every number, at the place of that number; -1 if it does not occur."""
    first_places = np.full(int(numbers.max(initial=-1)) + 1, -1, dtype=np.int64)
    first_places[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return first_places
