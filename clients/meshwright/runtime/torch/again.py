"""Saved tensors that are gathered again: what autograd keeps is what they were gathered from.

PyTorch saves an op's inputs as they are, and a gathered one would live until the backward pass.
What was gathered is known by its storage; instead of a view of it, its place in it is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

T = torch.Tensor


@dataclass(eq=False, slots=True)
class Gathered:
    """Something gathered. saved: how often autograd keeps a part of it, not asked for yet."""

    gather: Callable[[], T]
    value: T | None
    saved: int = 0


@dataclass(frozen=True, slots=True)
class _Place:
    of: Gathered
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


class GatheredAgain:
    """What is gathered at this moment of a forward pass, by storage and tensor."""

    def __init__(self) -> None:
        self._held: dict[int, Gathered] = {}
        self._storages: dict[str, list[int]] = {}

    def hooks(self) -> AbstractContextManager[None]:
        """While it is entered nothing that is held is saved."""
        return torch.autograd.graph.saved_tensors_hooks(self._pack, _unpack)

    def hold(self, tensor: str, value: T, gather: Callable[[], T]) -> None:
        """A value of a tensor was gathered; it can be gathered again so."""
        storage = value.untyped_storage().data_ptr()
        self._held[storage] = Gathered(gather, value)
        self._storages.setdefault(tensor, []).append(storage)

    def let_go(self, tensor: str) -> None:
        """No op reads any more what was gathered of a tensor."""
        for storage in self._storages.pop(tensor, ()):
            self._held.pop(storage).value = None

    def _pack(self, tensor: T) -> T | _Place:
        own = self._held.get(tensor.untyped_storage().data_ptr())
        if own is None:
            return tensor
        own.saved += 1
        return _Place(own, tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()))


def _unpack(saved: T | _Place) -> T:
    if isinstance(saved, torch.Tensor):
        return saved
    own = saved.of
    if own.value is None:
        own.value = own.gather()
    found = own.value.as_strided(saved.shape, saved.stride, saved.offset)
    own.saved -= 1
    if not own.saved:
        own.value = None
    return found
