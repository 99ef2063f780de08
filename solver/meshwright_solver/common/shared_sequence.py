"""Sequences of which many items are alike: what they are is held once, and made when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Generic, TypeVar, overload

import numpy as np

from meshwright_solver.common.arrays import IntArray

T = TypeVar("T")


class Repeated(Sequence[T], Generic[T]):
    """Item k is made of parts[numbers[k]]. Immutable."""

    def __init__(self, parts: Sequence[T], numbers: IntArray) -> None:
        self.parts = parts
        self.numbers = numbers

    def _made(self, part: T, place: int) -> T:
        """The item at a place, of its part."""
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
        """All items: who wants one after the other mostly comes again."""
        item_at, parts = self._made, self.parts
        return tuple([item_at(parts[k], place) for place, k in enumerate(self.numbers.tolist())])


def parts_of(items: Sequence[T]) -> tuple[Sequence[T], IntArray]:
    """Parts that items are made of, and of which of them each is."""
    if isinstance(items, Repeated):
        return items.parts, items.numbers
    return items, np.arange(len(items), dtype=np.int64)


def firsts(numbers: IntArray) -> IntArray:
    """Where each of small numbers stands first, -1 where it does not: of number k at place k."""
    first_places = np.full(int(numbers.max(initial=-1)) + 1, -1, dtype=np.int64)
    first_places[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return first_places
