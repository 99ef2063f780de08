"""Stated layouts: the layout after the reduction of a partial value, as a pin states it.

A product that is cut in its summed factor leaves partial sums. A pin of the output states how many
parts each dim has after the reduction. Axes of partial sums move to dims with more parts than the
op makes (reduce-scatter); the other axes of partial sums are reduced in full (all-reduce).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import BoolArray, IntArray
from meshwright_solver.layouts.states import PARTIAL, REPLICATED, VARIED


@dataclass(frozen=True, slots=True)
class StatedLayout:
    """The parts of each dim of a value.

    slots: the number of shardable slots. dims: by dim, its slots. parts: by dim, the number of
    parts, or for each axis whether it lies on the dim.
    """

    slots: int
    axis_sizes: tuple[int, ...]
    dims: tuple[tuple[int, ...], ...]
    parts: tuple[int | tuple[bool, ...], ...]

    def holds(self, states: IntArray) -> BoolArray:
        """(states,): whether every dim is cut as stated, partial or not."""
        sizes = np.array(self.axis_sizes, dtype=np.int64)
        mask = np.ones(len(states), dtype=np.bool_)
        for slots, parts in zip(self.dims, self.parts, strict=True):
            on = np.isin(states, slots)
            if isinstance(parts, int):
                mask &= np.where(on, sizes, 1).prod(axis=1) == parts
            else:
                mask &= (on == np.array(parts)).all(axis=1)
        return mask

    def reductions(self, rest: IntArray, read: IntArray) -> BoolArray:
        """(rest, read): whether a read layout is the stated reduction of a layout at rest."""
        partial = rest == self.slots + PARTIAL
        is_reduced = read != self.slots + PARTIAL
        same = self._values(rest)[:, None, :] == self._values(read)[None, :, :]
        fits: BoolArray = np.where(partial[:, None, :], is_reduced[None, :, :], same).all(axis=2)
        return np.logical_and(fits, self.holds(read)[None, :])

    def reducibility(self, rest: IntArray, states: IntArray) -> IntArray:
        """(rest,): 2 where a reduce-scatter gives one of these states as stated, 1 with more steps.

        0: none is the stated reduction. A reduce-scatter divides the parts that a dim has, so that
        the axes that it adds to the dim are faster than those that lie there.
        """
        reduced = states[self.holds(states) & (states != self.slots + PARTIAL).all(axis=1)]
        rows, place = np.unique(rest, axis=0, return_inverse=True)
        fits = self.reductions(rows, reduced)
        in_order = np.ones(fits.shape, dtype=np.bool_)
        for slow in range(rows.shape[1]):
            for fast in range(slow):
                is_added = (rows[:, fast] == self.slots + PARTIAL)[:, None]
                same = (reduced[:, slow] == reduced[:, fast]) & (reduced[:, slow] < self.slots)
                lies = (rows[:, slow] < self.slots)[:, None]
                in_order &= ~(is_added & lies & same[None, :])
        rank: IntArray = np.asarray(fits.any(axis=1).astype(np.int64))
        rank = rank + (fits & in_order).any(axis=1)
        return rank[place.reshape(-1)]

    def may_read(self, rest: IntArray, read: IntArray) -> BoolArray:
        """(rest, read): whether readers may share a read layout.

        A layout at rest that holds already leaves its readers open.
        """
        is_open: BoolArray = self.holds(rest)[:, None]
        return np.logical_or(self.reductions(rest, read), is_open)

    def _values(self, states: IntArray) -> IntArray:
        """The layouts of the value alone, without its gradient."""
        return np.where(states == self.slots + VARIED, self.slots + REPLICATED, states)


# by root of value: the stated layout of its readers
StatedLayouts = Mapping[str, StatedLayout]
