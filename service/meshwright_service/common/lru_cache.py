"""What was asked for last, as much as there is room for."""

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
    """Values by key. Safe to share between threads.

    most: what all together may weigh, each by `weight`; without one, so many. The last stays.
    """

    def __init__(self, most: int, weight: Callable[[V], int] = _one) -> None:
        self._most = most
        self._weight = weight
        self._lock = threading.Lock()
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._weighs = 0

    def get(self, key: K) -> V | None:
        """What is kept there, from now on the last that was asked for."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def keep(self, key: K, value: V) -> None:
        """Keep it, in place of what was there, and let go of what was asked for longest ago."""
        with self._lock:
            self._drop(self._kept.pop(key, None))
            self._kept[key] = value
            self._weighs += self._weight(value)
            while self._weighs > self._most and len(self._kept) > 1:
                self._drop(self._kept.popitem(last=False)[1])

    def _drop(self, value: V | None) -> None:
        if value is not None:
            self._weighs -= self._weight(value)
