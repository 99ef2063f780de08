"""A cluster in numpy: one array holds the parts of all devices, so that many devices cost little.

Its first dims are the axes of the mesh, the others the local lengths of the slots. Collectives are
written from what they mean: a gather joins the dim of an axis to that of the slot which it cuts, a
scatter splits a slot's dim and makes the pieces a dim of devices, a reduction sums over devices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.int64]


@dataclass(frozen=True)
class Lay:
    """The axes on every slot, slowest first, and those over which the parts add up to the value."""

    slots: tuple[tuple[int, ...], ...]
    partial: tuple[int, ...]

    @classmethod
    def of(cls, codes: Sequence[int], ranks: Sequence[int], slots: int) -> Lay:
        """From a code per axis (slot, `slots` replicated, `slots` + 1 partial) and its rank."""
        axes = range(len(codes))
        return cls(
            tuple(
                tuple(sorted((a for a in axes if codes[a] == k), key=lambda a: (ranks[a], a)))
                for k in range(slots)
            ),
            tuple(a for a in axes if codes[a] == slots + 1),
        )


@dataclass(frozen=True)
class Cluster:
    """Devices as coordinates on axes; the value has one dim for each slot."""

    axis_sizes: tuple[int, ...]
    slot_sizes: tuple[int, ...]

    @property
    def _axes(self) -> int:
        return len(self.axis_sizes)

    def place(self, whole: Array, lay: Lay, random: np.random.Generator) -> Array:
        """The value on all devices; partial values are random parts that add up to it."""
        shape = [n if a in lay.partial else 1 for a, n in enumerate(self.axis_sizes)]
        parts = random.integers(-9, 10, (*shape, *whole.shape))
        first = tuple(0 for _ in shape)
        parts[first] = 0
        parts[first] = whole - parts.sum(axis=tuple(range(self._axes)))
        return self._everywhere(self._scattered(parts, lay))

    def check(self, held: Array, whole: Array, lay: Lay) -> None:
        """Every device's part, summed over the partial axes, is its stretch of the value."""
        wanted = self.place(whole, Lay(lay.slots, ()), np.random.default_rng(0))
        found = held.sum(axis=lay.partial, keepdims=True)
        assert found.shape[self._axes :] == wanted.shape[self._axes :]
        assert (found == wanted).all()

    def step(self, kind: str, axes: Sequence[int], held: Array, before: Lay, after: Lay) -> Array:
        """One collective or local step on all devices."""
        group = frozenset(axes)
        for a in set(range(self._axes)) - group:
            same = a in before.partial, [k for k, own in enumerate(before.slots) if a in own]
            assert same == (
                a in after.partial,
                [k for k, own in enumerate(after.slots) if a in own],
            )
        if kind == "permute":
            return self._permuted(axes, held, before, after)
        kept = tuple(tuple(a for a in own if a not in group) for own in before.slots)
        for own, rest in zip(before.slots, kept, strict=True):
            assert own[: len(rest)] == rest, "a collective takes the fastest axes of a slot"
        for own, rest in zip(after.slots, kept, strict=True):
            assert own[: len(rest)] == rest, "a collective puts axes behind the others"
        added = Lay(
            tuple(own[len(rest) :] for own, rest in zip(after.slots, kept, strict=True)), ()
        )
        placed = {a for own in before.slots for a in own}
        match kind:
            case "all_gather":
                assert group <= placed
                assert not group & {a for own in after.slots for a in own} | group & {
                    *after.partial
                }
                return self._everywhere(self._gathered(held, before, group))
            case "all_to_all":
                assert group <= placed
                assert group == {a for own in added.slots for a in own}
                return self._everywhere(self._scattered(self._gathered(held, before, group), added))
            case "all_reduce" | "reduce_scatter":
                assert group <= set(before.partial)
                wanted = group if kind == "reduce_scatter" else frozenset()
                assert wanted == {a for own in added.slots for a in own}
                assert not set(after.partial) & group
                summed = held.sum(axis=tuple(group), keepdims=True)
                return self._everywhere(self._scattered(summed, added))
            case "slice":
                assert not group & (placed | set(before.partial))
                return self._sliced(held, added)
            case "mask":
                assert not group & set(before.partial)
                assert group <= set(after.partial)
                return self._masked(held, before, group)
            case _:
                raise AssertionError(kind)

    def _everywhere(self, array: Array) -> Array:
        shape = (*self.axis_sizes, *array.shape[self._axes :])
        return np.ascontiguousarray(np.broadcast_to(array, shape))

    def _gathered(self, array: Array, lay: Lay, group: frozenset[int]) -> Array:
        """The group's fastest axes joined into their slots' dims; their own dims become 1."""
        for k, own in enumerate(lay.slots):
            for a in reversed([a for a in own if a in group]):
                array = np.expand_dims(array, self._axes + k)
                array = np.swapaxes(array, a, self._axes + k)
                array = array.reshape(
                    *array.shape[: self._axes + k],
                    array.shape[self._axes + k] * array.shape[self._axes + k + 1],
                    *array.shape[self._axes + k + 2 :],
                )
        return array

    def _scattered(self, array: Array, lay: Lay) -> Array:
        """Slots' dims cut by axes, slowest first, whose dims are 1 so far."""
        for k, own in enumerate(lay.slots):
            for a in own:
                assert array.shape[a] == 1
                at = self._axes + k
                size = self.axis_sizes[a]
                assert array.shape[at] % size == 0
                array = array.reshape(
                    *array.shape[:at], size, array.shape[at] // size, *array.shape[at + 1 :]
                )
                array = np.swapaxes(array, a, at).squeeze(at)
        return array

    def _sliced(self, held: Array, added: Lay) -> Array:
        """Every device cuts what it holds itself."""
        for k, own in enumerate(added.slots):
            for a in own:
                at = self._axes + k
                size = self.axis_sizes[a]
                held = held.reshape(
                    *held.shape[:at], size, held.shape[at] // size, *held.shape[at + 1 :]
                )
                held = np.moveaxis(np.diagonal(held, axis1=a, axis2=at), -1, a)
        return np.ascontiguousarray(held)

    def _masked(self, held: Array, lay: Lay, group: frozenset[int]) -> Array:
        """A shard stays where it is, a copy on the first device of an axis; the rest is zero."""
        for a in group - {a for own in lay.slots for a in own}:
            rest = [slice(None)] * held.ndim
            rest[a] = slice(1, None)
            held = held.copy()
            held[tuple(rest)] = 0
        for k, own in enumerate(lay.slots):
            for a in reversed([a for a in own if a in group]):
                at = self._axes + k
                size = self.axis_sizes[a]
                grown = np.zeros((*held.shape[:at], size, *held.shape[at:]), dtype=held.dtype)
                for i in range(size):
                    here = [slice(None)] * grown.ndim
                    here[a], here[at] = slice(i, i + 1), slice(i, i + 1)
                    there = [slice(None)] * held.ndim
                    there[a] = slice(i, i + 1)
                    grown[tuple(here)] = np.expand_dims(held[tuple(there)], at)
                held = grown.reshape(*held.shape[:at], size * held.shape[at], *held.shape[at + 1 :])
        return held

    def _permuted(self, axes: Sequence[int], held: Array, before: Lay, after: Lay) -> Array:
        """Every device sends what it holds, whole, to one other of its group."""
        group = self._group(axes).ravel()
        had, gets = self.part(before).ravel(), self.part(after).ravel()
        senders, receivers = np.lexsort((had, group)), np.lexsort((gets, group))
        assert (had[senders] == gets[receivers]).all(), "as many hold a part as get it"
        sender = np.empty_like(senders)
        sender[receivers] = senders
        return held.reshape(len(group), *held.shape[self._axes :])[sender].reshape(held.shape)

    def _group(self, axes: Sequence[int]) -> Array:
        """The number of every device's group over some axes."""
        at = np.indices(self.axis_sizes)
        found = np.zeros(self.axis_sizes, dtype=np.int64)
        for a in range(self._axes):
            if a not in axes:
                found = found * self.axis_sizes[a] + at[a]
        return found

    def part(self, lay: Lay) -> Array:
        """The number of every device's part: its stretch, and which of the values that add up."""
        at = np.indices(self.axis_sizes)
        found = np.zeros(self.axis_sizes, dtype=np.int64)
        for own in (*lay.slots, lay.partial):
            found = found * math.prod(self.axis_sizes[a] for a in own)
            index = np.zeros_like(found)
            for a in own:
                index = index * self.axis_sizes[a] + at[a]
            found = found + index
        return found
