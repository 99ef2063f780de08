"""LRU cache with a limit on the total weight of its values."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def _one(_: Any) -> int:
    return 1


class Latest(Generic[K, V]):
    """LRU cache: values by key. Safe to share between threads.

    most: limit of the total weight; by default each value weighs 1. The newest value always stays.
    """

    def __init__(self, most: int, weight: Callable[[V], int] = _one) -> None:
        self._most = most
        self._weight = weight
        self._lock = threading.Lock()
        self._values: OrderedDict[K, V] = OrderedDict()
        self._total_weight = 0

    def get(self, key: K) -> V | None:
        """The value of a key, or None; marks it as most recently used."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def keep(self, key: K, value: V) -> None:
        """Set the value of a key, and evict the least recently used values above the limit."""
        with self._lock:
            self._drop(self._values.pop(key, None))
            self._values[key] = value
            self._total_weight += self._weight(value)
            while self._total_weight > self._most and len(self._values) > 1:
                self._drop(self._values.popitem(last=False)[1])

    def _drop(self, value: V | None) -> None:
        if value is not None:
            self._total_weight -= self._weight(value)
