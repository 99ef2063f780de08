"""Identity keys: cache keys for objects that are too large to hash or to compare.

An `id` identifies an object only during its lifetime. A cache that stores only an `id` can return
the entry of another object that reuses the address.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NewType, NoReturn

IdentityKey = NewType("IdentityKey", int)


class IdentityKeys:
    """Keys by identity: equal keys denote the same object.

    An object with a key lives as long as its `IdentityKeys`. Keys of two `IdentityKeys` are not
    comparable. Keys are invalid in other processes: pickling raises TypeError.
    """

    __slots__ = ("_objects",)

    def __init__(self) -> None:
        self._objects: dict[int, object] = {}

    def __call__(self, thing: object) -> IdentityKey:
        """Key of an object in O(1), without a call of its `__hash__` or `__eq__`."""
        key = id(thing)
        if key not in self._objects:
            self._objects[key] = thing
        return IdentityKey(key)

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys by identity are valid in one process only: pickle the content")

    def each(self, things: Iterable[object]) -> tuple[IdentityKey, ...]:
        """Keys of objects, in order."""
        return tuple([self(thing) for thing in things])
