"""Activation recomputation: saved-tensor hooks that gather or recompute in the backward pass.

PyTorch saves the tensors that the backward pass of an op needs, so that a gathered tensor would
stay alive until then. These hooks identify a tensor that can be recomputed by its storage, and save
its place in the storage instead. A recomputed op runs again once as a whole, from its saved inputs.
All tensors that autograd saved of it, also inside its kernel, come from this run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import torch

T = torch.Tensor
Make = Callable[[], T]
Unpacks = Literal["once", "twice"]


@dataclass(eq=False, slots=True)
class RecomputedStorage:
    """A storage that can be recomputed.

    unpacks  whether each part is unpacked once or twice
    readers  the number of tensors in the storage that still have readers
    saved    the number of saved places that are not unpacked yet
    """

    make: Make
    value: T | None
    unpacks: Unpacks
    readers: int = 0
    saved: int = 0


@dataclass(frozen=True, slots=True)
class _Place:
    of: RecomputedStorage
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


class RecomputedTensors:
    """The storages that can be recomputed at a moment of a forward pass.

    `there` are tensors that live longer anyway and do not count as saved. `unpacks` is the number
    of passes that unpack saved tensors. With two passes, a recomputed tensor lives until autograd
    releases it.
    """

    def __init__(self, there: Iterable[T], unpacks: Unpacks = "once") -> None:
        self._unpacks = unpacks
        self._there = frozenset(_storage(tensor) for tensor in there)
        self._held: dict[int, RecomputedStorage] = {}
        self._storages: dict[str, list[int]] = {}
        self._kept: dict[int, int] = {}

    @property
    def kept_bytes(self) -> int:
        """The memory that is saved until the backward pass, in bytes, including inputs of ops."""
        return sum(self._kept.values())

    def hooks(self) -> AbstractContextManager[None]:
        """The context in which autograd saves places instead of tensors that can be recomputed."""
        return torch.autograd.graph.saved_tensors_hooks(self._pack, _unpack)

    def hold(self, tensor: str, value: T, make: Make) -> None:
        """Register a value of a tensor that `make` can recompute."""
        self._held.setdefault(_storage(value), RecomputedStorage(make, value, self._unpacks))
        self.share(tensor, value)

    def share(self, tensor: str, value: T) -> None:
        """Register a tensor that may share the storage of another one."""
        storage = self._held.get(_storage(value))
        if storage is not None:
            storage.readers += 1
            self._storages.setdefault(tensor, []).append(_storage(value))

    def let_go(self, tensor: str) -> None:
        """Release a tensor after its last reader."""
        for pointer in self._storages.pop(tensor, ()):
            storage = self._held[pointer]
            storage.readers -= 1
            if not storage.readers:
                storage.value = None
                del self._held[pointer]

    def source(self, value: T) -> Make:
        """A function that returns the value in the backward pass, recomputed if possible."""
        return partial(_unpack, self._pack(value.detach()))

    def run(
        self, names: Sequence[str], inputs: Sequence[T], op: Callable[[Sequence[T]], Sequence[T]]
    ) -> Sequence[T]:
        """The results of an op that is recomputed. Nothing of it is saved."""
        again = _OpAgain(op, [(self.source(x), x.requires_grad) for x in inputs], self._unpacks)
        of_inputs = {_storage(x) for x in inputs}

        def pack(tensor: T) -> T | _Place | Make:
            place = again.next_place()
            if _storage(tensor) in of_inputs or _storage(tensor) in self._held:
                return self._pack(tensor)
            again.wanted.add(place)
            return partial(again.saved, place)

        with torch.autograd.graph.saved_tensors_hooks(pack, _unpack):
            results = op(inputs)
        for k, (name, result) in enumerate(zip(names, results, strict=True)):
            if _storage(result) not in of_inputs and _storage(result) not in self._held:
                self.hold(name, result, partial(again.output, k))
            else:
                self.share(name, result)
        return results

    def _pack(self, tensor: T) -> T | _Place:
        storage = self._held.get(_storage(tensor))
        if storage is None:
            if _storage(tensor) not in self._there:
                self._kept[_storage(tensor)] = tensor.untyped_storage().nbytes()
            return tensor
        storage.saved += 1
        return _Place(storage, tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()))


@dataclass(eq=False)
class _OpAgain:
    """An op that is recomputed at the first access to one of its tensors.

    `inputs` are functions that return the inputs, and whether these have gradients. `wanted` are
    the positions of the tensors that autograd saves.
    """

    op: Callable[[Sequence[T]], Sequence[T]]
    inputs: Sequence[tuple[Make, bool]]
    unpacks: Unpacks
    wanted: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._device = torch.get_default_device()
        self._places = 0
        self._saved: dict[int, T] = {}
        self._outputs: dict[int, T] | None = None

    def next_place(self) -> int:
        self._places += 1
        return self._places - 1

    def saved(self, place: int) -> T:
        self._run()
        return self._saved.pop(place) if self.unpacks == "once" else self._saved[place]

    def output(self, k: int) -> T:
        return self._run().pop(k)

    def _run(self) -> dict[int, T]:
        if self._outputs is None:
            self._places = 0
            inputs = [make().detach().requires_grad_(has) for make, has in self.inputs]
            hooks = torch.autograd.graph.saved_tensors_hooks(self._collect, _no_unpack)
            with torch.enable_grad(), self._device, hooks:
                results = self.op(inputs)
            self._outputs = {k: result.detach() for k, result in enumerate(results)}
        return self._outputs

    def _collect(self, tensor: T) -> None:
        place = self.next_place()
        if place in self.wanted:
            self._saved[place] = tensor.detach()


def _unpack(saved: T | _Place | Make) -> T:
    if isinstance(saved, torch.Tensor):
        return saved
    if not isinstance(saved, _Place):
        return saved()
    storage = saved.of
    if storage.value is None:
        storage.value = storage.make()
    value = storage.value.as_strided(saved.shape, saved.stride, saved.offset)
    storage.saved -= 1
    if not storage.saved and storage.unpacks == "once":
        storage.value = None
    return value


def _no_unpack(_: object) -> T:
    raise AssertionError("a recomputed op has no backward pass")


def _storage(value: T) -> int:
    return value.untyped_storage().data_ptr()
