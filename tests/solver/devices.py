"""A toy cluster in numpy: what each device holds of one value, and what collectives do to it.

A device's array has the size of the whole value and NaN where the device holds nothing. A layout is
a code per axis (a slot it splits, or HELD, or PARTIAL) and the axes that come last on their slots.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
HELD, PARTIAL = -1, -2


@dataclass(frozen=True)
class Lay:
    """How one value lies: for every axis the slot it splits, HELD or PARTIAL."""

    codes: tuple[int, ...]
    last: tuple[int, ...] = ()


@dataclass(frozen=True)
class Cluster:
    """Devices as coordinates on axes; the value has one dim for each slot."""

    axis_sizes: tuple[int, ...]
    slot_sizes: tuple[int, ...]

    @property
    def devices(self) -> list[tuple[int, ...]]:
        return list(itertools.product(*(range(size) for size in self.axis_sizes)))

    def region(self, lay: Lay, device: Sequence[int]) -> tuple[slice, ...]:
        """The stretch of every slot: axes slowest first, those in `last` behind the others."""
        found = []
        for slot, size in enumerate(self.slot_sizes):
            own = [a for a, code in enumerate(lay.codes) if code == slot]
            index, ways = 0, 1
            for a in sorted(own, key=lambda a: (a in lay.last, a)):
                index = index * self.axis_sizes[a] + device[a]
                ways *= self.axis_sizes[a]
            assert size % ways == 0
            found.append(slice(index * (size // ways), (index + 1) * (size // ways)))
        return tuple(found)

    def local_size(self, lay: Lay) -> int:
        return math.prod(s.stop - s.start for s in self.region(lay, self.devices[0]))

    def group(self, device: Sequence[int], axes: Sequence[int]) -> list[tuple[int, ...]]:
        """The devices that differ from this one along `axes` only."""
        return [
            other
            for other in self.devices
            if all(other[a] == device[a] for a in range(len(other)) if a not in axes)
        ]

    def place(self, whole: Array, lay: Lay, random: np.random.Generator) -> dict[object, Array]:
        """The value on all devices; partial values are random parts that add up to it."""
        partial = [a for a, code in enumerate(lay.codes) if code == PARTIAL]
        places = list(itertools.product(*(range(self.axis_sizes[a]) for a in partial)))
        parts = {place: random.integers(-9, 9, whole.shape) * 1.0 for place in places}
        parts[places[0]] = whole - sum(parts[place] for place in places[1:])
        return {
            device: self._only(parts[tuple(device[a] for a in partial)], self.region(lay, device))
            for device in self.devices
        }

    def check(self, held: dict[object, Array], whole: Array, lay: Lay) -> None:
        """Every device holds its stretch, no more, and partial ones add up to the value."""
        partial = [a for a, code in enumerate(lay.codes) if code == PARTIAL]
        for device in self.devices:
            expected = self._only(whole, self.region(lay, device))
            found = sum(held[other] for other in self.group(device, partial))
            np.testing.assert_array_equal(np.isnan(held[device]), np.isnan(expected))
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)

    def step(
        self, kind: str, axes: Sequence[int], held: dict[object, Array], source: Lay, target: Lay
    ) -> dict[object, Array]:
        """One collective or local step; fails where it cannot give the target."""
        return {
            device: self._at(device, kind, axes, held, source, target) for device in self.devices
        }

    def _at(
        self,
        device: tuple[int, ...],
        kind: str,
        axes: Sequence[int],
        held: dict[object, Array],
        source: Lay,
        target: Lay,
    ) -> Array:
        group = self.group(device, axes)
        region = self.region(target, device)
        match kind:
            case "slice":
                return self._taken(held[device], region)
            case "all_gather":
                merged = _merged([held[other] for other in group])
                taken = self._taken(merged, region)
                assert np.isnan(merged).sum() == np.isnan(taken).sum(), "gathers too much"
                return taken
            case "all_to_all":
                assert self.local_size(source) == self.local_size(target)
                return self._taken(_merged([held[other] for other in group]), region)
            case "permute":
                senders = [other for other in group if self.region(source, other) == region]
                assert len(senders) == 1, "every part has one place before and one behind"
                return held[senders[0]]
            case "reduce_scatter" | "all_reduce":
                assert len({str(self.region(source, other)) for other in group}) == 1
                assert kind == "reduce_scatter" or region == self.region(source, device)
                return self._taken(sum(held[other] for other in group), region)  # type: ignore[arg-type]  # never empty
            case "mask":
                return self._masked(device, axes, held[device], source, region)
            case _:
                raise AssertionError(kind)

    def _masked(
        self,
        device: tuple[int, ...],
        axes: Sequence[int],
        own: Array,
        source: Lay,
        region: tuple[slice, ...],
    ) -> Array:
        """A shard stays where it is, a copy stays on the first device; the rest is zero."""
        grown = self._only(np.zeros(self.slot_sizes), region)
        split = any(source.codes[a] >= 0 for a in axes)
        if not split and any(device[a] for a in axes):
            return grown
        assert not np.isnan(grown[~np.isnan(own)]).any(), "the shard lies outside"
        return np.where(np.isnan(own), grown, own)

    def _taken(self, array: Array, region: tuple[slice, ...]) -> Array:
        taken = self._only(array, region)
        assert not np.isnan(taken[region]).any(), "a part is missing that no member holds"
        return taken

    def _only(self, whole: Array, region: tuple[slice, ...]) -> Array:
        own = np.full(self.slot_sizes, np.nan)
        own[region] = whole[region]
        return own


def _merged(arrays: list[Array]) -> Array:
    merged = arrays[0].copy()
    for array in arrays[1:]:
        both = ~np.isnan(merged) & ~np.isnan(array)
        np.testing.assert_array_equal(merged[both], array[both])
        merged = np.where(np.isnan(merged), array, merged)
    return merged
