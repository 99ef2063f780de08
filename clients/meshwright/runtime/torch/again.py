"""What autograd does not keep: it is gathered, or made, again when the backward pass asks for it.

PyTorch saves what the backward pass of an op needs as it is, and a gathered tensor would live until
then. What can be had again is known by its storage; instead of a view of it, its place in it is
kept. An op that the plan does again is run again as a whole, once, from what is kept of its inputs:
all that autograd wants of it, inside its kernel too, is taken from there.
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
Asked = Literal["once", "twice"]


@dataclass(eq=False, slots=True)
class Remade:
    """Something that can be had again. asked: how often each part of it is.

    readers: tensors of the graph that lie in it and are still read. saved: how often a part of it
    is kept, and not asked for yet.
    """

    make: Make
    value: T | None
    asked: Asked
    readers: int = 0
    saved: int = 0


@dataclass(frozen=True, slots=True)
class _Place:
    of: Remade
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


class Again:
    """What can be had again at this moment of a forward pass, by storage and tensor.

    there: what lives as long anyway, and does not count as kept. asked: by how many passes for what
    an op saved; what was made again for the first of two is there until autograd forgets it.
    """

    def __init__(self, there: Iterable[T], asked: Asked = "once") -> None:
        self._asked = asked
        self._there = frozenset(_storage(one) for one in there)
        self._held: dict[int, Remade] = {}
        self._storages: dict[str, list[int]] = {}
        self._kept: dict[int, int] = {}

    @property
    def kept_bytes(self) -> int:
        """All that is kept until the backward pass: what is saved, and what others are made of."""
        return sum(self._kept.values())

    def hooks(self) -> AbstractContextManager[None]:
        """While it is entered nothing that is held is saved."""
        return torch.autograd.graph.saved_tensors_hooks(self._keep, _had)

    def hold(self, tensor: str, value: T, make: Make) -> None:
        """A value of a tensor, which can be made again so."""
        self._held.setdefault(_storage(value), Remade(make, value, self._asked))
        self.share(tensor, value)

    def share(self, tensor: str, value: T) -> None:
        """A tensor may lie in what is held of another one."""
        own = self._held.get(_storage(value))
        if own is not None:
            own.readers += 1
            self._storages.setdefault(tensor, []).append(_storage(value))

    def let_go(self, tensor: str) -> None:
        """No op reads this tensor any more."""
        for storage in self._storages.pop(tensor, ()):
            own = self._held[storage]
            own.readers -= 1
            if not own.readers:
                own.value = None
                del self._held[storage]

    def source(self, value: T) -> Make:
        """A value as it can be had in the backward pass, without keeping what is held."""
        return partial(_had, self._keep(value.detach()))

    def run(
        self, names: Sequence[str], inputs: Sequence[T], op: Callable[[Sequence[T]], Sequence[T]]
    ) -> Sequence[T]:
        """What an op makes of its inputs; nothing of it is kept."""
        own = _OpAgain(op, [(self.source(one), one.requires_grad) for one in inputs], self._asked)
        given = {_storage(one) for one in inputs}

        def keep(tensor: T) -> T | _Place | Make:
            place = own.next_place()
            if _storage(tensor) in given or _storage(tensor) in self._held:
                return self._keep(tensor)
            own.wanted.add(place)
            return partial(own.saved, place)

        with torch.autograd.graph.saved_tensors_hooks(keep, _had):
            results = op(inputs)
        for k, (name, result) in enumerate(zip(names, results, strict=True)):
            if _storage(result) not in given and _storage(result) not in self._held:
                self.hold(name, result, partial(own.output, k))
            else:
                self.share(name, result)
        return results

    def _keep(self, tensor: T) -> T | _Place:
        own = self._held.get(_storage(tensor))
        if own is None:
            if _storage(tensor) not in self._there:
                self._kept[_storage(tensor)] = tensor.untyped_storage().nbytes()
            return tensor
        own.saved += 1
        return _Place(own, tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()))


@dataclass(eq=False)
class _OpAgain:
    """An op that is run again when the first of what it makes is asked for. inputs: how to have
    them, and whether they have gradients. wanted: what autograd saves of it, in order."""

    op: Callable[[Sequence[T]], Sequence[T]]
    inputs: Sequence[tuple[Make, bool]]
    asked: Asked
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
        return self._saved.pop(place) if self.asked == "once" else self._saved[place]

    def output(self, k: int) -> T:
        return self._run().pop(k)

    def _run(self) -> dict[int, T]:
        if self._outputs is None:
            self._places = 0
            inputs = [make().detach().requires_grad_(has) for make, has in self.inputs]
            hooks = torch.autograd.graph.saved_tensors_hooks(self._collect, _refused)
            with torch.enable_grad(), self._device, hooks:
                results = self.op(inputs)
            self._outputs = {k: result.detach() for k, result in enumerate(results)}
        return self._outputs

    def _collect(self, tensor: T) -> None:
        place = self.next_place()
        if place in self.wanted:
            self._saved[place] = tensor.detach()


def _had(saved: T | _Place | Make) -> T:
    if isinstance(saved, torch.Tensor):
        return saved
    if not isinstance(saved, _Place):
        return saved()
    own = saved.of
    if own.value is None:
        own.value = own.make()
    found = own.value.as_strided(saved.shape, saved.stride, saved.offset)
    own.saved -= 1
    if not own.saved and own.asked == "once":
        own.value = None
    return found


def _refused(_: object) -> T:
    raise AssertionError("what is run again has no backward pass of its own")


def _storage(value: T) -> int:
    return value.untyped_storage().data_ptr()
