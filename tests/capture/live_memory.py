"""What PyTorch holds while it runs: every storage from when it is made until it is let go of."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


@dataclass(frozen=True)
class Change:
    """Bytes of a storage that came to be, or (negative) was let go of, and the operator of then."""

    storage: int
    bytes: int
    operator: str


@dataclass(frozen=True)
class Fullest:
    bytes: int
    operator: str


class Live(TorchDispatchMode):
    """Storages that come to be while it is entered; those of `besides` do not count.

    Of an operator it sees what goes in and comes out: as an allocator, but for what a kernel takes
    for itself meanwhile.
    """

    def __init__(self, besides: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.changes: list[Change] = []
        self.marks: list[int] = []
        self._besides = [tensor.untyped_storage() for tensor in besides]
        self._number: dict[int, int] = {own._cdata: -1 for own in self._besides}
        self._count = 0
        self._operator = ""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self._operator = str(function)
        made = function(*args, **(kwargs or {}))
        for tensor in tree_iter(made):
            if isinstance(tensor, torch.Tensor):
                self._see(tensor.untyped_storage())
        return made

    def mark(self) -> None:
        """A pass ends here."""
        self.marks.append(len(self.changes))

    def number_of(self, tensor: torch.Tensor) -> int:
        """The storage of a tensor that is there, as `changes` call it."""
        return self._number[tensor.untyped_storage()._cdata]

    def fullest(self, mark: int, without: Collection[int] = ()) -> Fullest:
        """Of the pass that ends at a mark; without: storages that are counted elsewhere."""
        first = self.marks[mark - 1] if mark else 0
        held, best = self.held(first, without), Fullest(0, "")
        for change in self.changes[first : self.marks[mark]]:
            if change.storage not in without:
                held += change.bytes
            if held > best.bytes:
                best = Fullest(held, change.operator)
        return best

    def held(self, until: int | None = None, without: Collection[int] = ()) -> int:
        """Bytes of all that is there after so many changes."""
        own = self.changes[:until]
        return sum(change.bytes for change in own if change.storage not in without)

    def _see(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._number:
            return
        number = self._number[key] = self._count
        self._count += 1
        self.changes.append(Change(number, size, self._operator))
        weakref.finalize(storage, self._gone, key, number, size)

    def _gone(self, key: int, number: int, size: int) -> None:
        del self._number[key]
        self.changes.append(Change(number, -size, self._operator))
