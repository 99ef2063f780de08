"""States: the layouts of one value on one mesh, as arrays of codes.

A state has one code per mesh axis. For a value with n shardable slots

    0 .. n-1   S: value and gradient split over this slot
    n          R: both replicated
    n + 1      P: value partial, gradient replicated
    n + 2      V: value replicated, gradient partial (only where there is a gradient)

A state is valid where every slot, or its span (`solver.uneven`), divides by the axes on it; an
axis of size 1 is always R. A slot with a span is cut into equal chunks of it, and what lies on one
device is what the fullest one holds. Arrays of states have the shape (states, axes); a code table
is indexed by `key`, the state read as a number of base n + 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solver.placements import placements

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

REPLICATED, PARTIAL, VARIED = 0, 1, 2  # offsets from n
_MOST_PLACES = 1 << 17  # chosen: a megabyte for the look-up table of a value


@dataclass(frozen=True)
class StateSpace:
    """All states of a value on a mesh.

    slot_sizes: of the shardable slots. axis_sizes: of the mesh, slowest first. bytes: of the whole
    value. has_gradient: whether V exists and moves have a backward half. spans: of the slots, equal
    to their sizes where they have none; () where no slot has one. counts: of the chunks of slots
    that the user cut, which count as if all were as long as the longest; 0 for others, () for none.
    """

    slot_sizes: tuple[int, ...]
    axis_sizes: tuple[int, ...]
    bytes: int
    has_gradient: bool
    spans: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def slots(self) -> int:
        return len(self.slot_sizes)

    @property
    def base(self) -> int:
        return self.slots + 3

    @cached_property
    def states(self) -> IntArray:
        """Every valid state, in lexicographic order; not to be written to."""
        n = self.slots
        lies_on = (*((slot,) for slot in range(n)), *((),) * 3)
        codes = range(self.base if self.has_gradient else self.base - 1)
        lengths = self.spans or self.slot_sizes
        found = placements(codes, n + REPLICATED, lies_on, lengths, self.axis_sizes)
        sizes = np.array(self.axis_sizes, dtype=np.int64)
        for slot, count in enumerate(self.counts):
            if count:
                ways = np.where(found == slot, sizes, 1).prod(axis=1)
                found = found[(ways == 1) | (ways == count)]
        return found

    @cached_property
    def _place(self) -> IntArray:
        """The position of the state with each key, -1 where there is none."""
        place = np.full(self.base ** len(self.axis_sizes), -1, dtype=np.int64)
        place[self.key(self.states)] = np.arange(len(self.states))
        return place

    @cached_property
    def _weights(self) -> IntArray:
        return self.base ** np.arange(len(self.axis_sizes) - 1, -1, -1, dtype=np.int64)

    def key(self, states: IntArray) -> IntArray:
        """States as numbers of base n + 3."""
        return states @ self._weights

    def index(self, states: IntArray) -> IntArray:
        """Positions of `states` in `self.states`; -1 where a state is not valid."""
        wanted = self.key(states)
        if self.base ** len(self.axis_sizes) <= _MOST_PLACES:
            return self._place[wanted]
        keys = self.key(self.states)
        at = np.searchsorted(keys, wanted)
        at[at == len(keys)] = 0
        return np.where(keys[at] == wanted, at, -1)

    def valid(self, states: IntArray) -> NDArray[np.bool_]:
        return self.index(states) >= 0

    def local_bytes(self, states: IntArray) -> FloatArray:
        """Bytes of the value on the fullest device in each state."""
        sizes = np.array(self.axis_sizes, dtype=np.float64)
        ways: FloatArray = np.where(states < self.slots, sizes, 1.0).prod(axis=1)
        if not self.spans:
            return self.bytes / ways
        over, under = self._stretch(self._on(states))
        return self.bytes * over / (ways * under)

    def filled(self, states: IntArray, others: IntArray) -> FloatArray:
        """By how much the first states' bytes grow in a collective between the two.

        Slots that only the second state cuts travel filled up to their span.
        """
        if not self.spans:
            return np.ones(len(states))
        over, under = self._stretch(self._on(others) & ~self._on(states))
        return over / under

    def _on(self, states: IntArray) -> NDArray[np.bool_]:
        """(states, slots): whether any axis lies on the slot."""
        on: NDArray[np.bool_] = (states[:, :, None] == np.arange(self.slots)).any(axis=1)
        return on

    def _stretch(self, on: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """The products of spans and of sizes; a ratio of the two would round."""
        over: FloatArray = np.where(on, np.array(self.spans, dtype=np.float64), 1.0).prod(axis=1)
        under: FloatArray = np.where(on, np.array(self.slot_sizes, dtype=np.float64), 1.0).prod(
            axis=1
        )
        return over, under
