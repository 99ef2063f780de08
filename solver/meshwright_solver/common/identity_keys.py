"""Keys of objects by identity, for caches whose objects are too large to hash or to compare.

An `id` names an object only while the object lives. A cache that stores an `id` alone can answer
for another object, which took the place of the first in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NewType, NoReturn

IdentityKey = NewType("IdentityKey", int)


class IdentityKeys:
    """Makes keys of objects: equal keys are of the same object.

    Every object that has a key lives as long as the `IdentityKeys` that made the key. Keys of two
    `IdentityKeys` are not compared. Keys mean nothing in another process: pickling raises
    TypeError.
    """

    __slots__ = ("_objects",)

    def __init__(self) -> None:
        self._objects: dict[int, object] = {}

    def __call__(self, thing: object) -> IdentityKey:
        """The key of an object. O(1), without a call of its `__hash__` or `__eq__`."""
        key = id(thing)
        if key not in self._objects:
            self._objects[key] = thing
        return IdentityKey(key)

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys by identity hold in one process only: pickle the content instead")

    def each(self, things: Iterable[object]) -> tuple[IdentityKey, ...]:
        """The keys of some objects, in their order."""
        return tuple([self(thing) for thing in things])
