"""A cache of the entries that were used last."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Kept = TypeVar("Kept")


class Recent(Generic[Kept]):
    """The entries that were used last, up to a total size of `most`, and always the latest."""

    def __init__(self, size: Callable[[Kept], int], most: int) -> None:
        self._size = size
        self._most = most
        self._total = 0
        self._entries: dict[Hashable, Kept] = {}

    def get(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """The entry of the key, made if it is not kept."""
        if key in self._entries:
            entry = self._entries.pop(key)
        else:
            entry = make()
            self._total += self._size(entry)
        self._entries[key] = entry
        while self._total > self._most and len(self._entries) > 1:
            oldest = self._entries.pop(next(iter(self._entries)))
            self._total -= self._size(oldest)
        return entry
