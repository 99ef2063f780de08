"""States: the layouts of one value on one mesh, as arrays of codes.

A state has one code per mesh axis. For a value with n shardable slots

    0 .. n-1   S: value and gradient split over this slot
    n          R: both replicated
    n + 1      P: value partial, gradient replicated
    n + 2      V: value replicated, gradient partial (only where there is a gradient)

A state is valid where every slot, or its span (`meshwright_solver.problem.uneven`), is divisible by
the axes on it; an axis of size 1 is always R. A slot with a span is cut into equal chunks of the
span, and the size of a part is that of the fullest device. Arrays of states have the shape (states,
axes); a code table is indexed by `key`, the state read as a number of base n + 3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import gcd, prod

import numpy as np
from numpy.typing import NDArray

from meshwright_costmodel.expert_imbalance import ExpertLoad
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.layouts.axis_placements import placements

REPLICATED, PARTIAL, VARIED = 0, 1, 2  # offsets from n
_MOST_PLACES = 1 << 17  # chosen: a megabyte for the look-up table of a value


@dataclass(frozen=True, eq=False)
class StateTable:
    """The valid states of values with equal cuts: (states, axes), in lexicographic order."""

    slots: int
    states: IntArray

    @cached_property
    def weights(self) -> IntArray:
        """The weight of each code in the key of a state, a number of base n + 3."""
        axes = self.states.shape[1]
        weights: IntArray = (self.slots + 3) ** np.arange(axes - 1, -1, -1, dtype=np.int64)
        return weights

    @cached_property
    def _keys(self) -> IntArray:
        return self.states @ self.weights

    @cached_property
    def _place(self) -> IntArray | None:
        """The position of the state with each key, -1 for no state; None for too many keys."""
        keys = (self.slots + 3) ** self.states.shape[1]
        if keys > _MOST_PLACES:
            return None
        place = np.full(keys, -1, dtype=np.int64)
        place[self._keys] = np.arange(len(self.states))
        return place

    def index(self, states: IntArray) -> IntArray:
        """Positions of states in the table; -1 where a state is not in it."""
        wanted = states @ self.weights
        place = self._place
        if place is not None:
            positions: IntArray = place[wanted]
            return positions
        at = np.searchsorted(self._keys, wanted)
        at[at == len(self._keys)] = 0
        return np.where(self._keys[at] == wanted, at, -1)


@lru_cache(maxsize=256)
def state_table(
    lengths: tuple[int, ...],
    axis_sizes: tuple[int, ...],
    has_gradient: bool,
    counts: tuple[int, ...] = (),
) -> StateTable:
    """The state table of some lengths, those of slots or spans.

    Only the common divisors of the lengths and the mesh matter.
    """
    n = len(lengths)
    lies_on = (*((slot,) for slot in range(n)), *((),) * 3)
    codes = range(n + 3 if has_gradient else n + 2)
    states = placements(codes, n + REPLICATED, lies_on, lengths, axis_sizes)
    sizes = np.array(axis_sizes, dtype=np.int64)
    for slot, count in enumerate(counts):
        if count:
            ways = np.where(states == slot, sizes, 1).prod(axis=1)
            states = states[(ways == 1) | (ways == count)]
    return StateTable(n, states)


@dataclass(frozen=True)
class StateSpace:
    """All states of a value on a mesh.

    slot_sizes: sizes of the shardable slots. axis_sizes: sizes of the mesh axes, slowest first.
    bytes: size of the whole value. has_gradient: whether V exists and redistributions have a
    backward half. spans: spans of the slots, equal to their sizes where they have none; () where no
    slot has one. counts: numbers of chunks of slots that the user cut, which count as if all were
    as long as the longest; 0 for others, () for none. load: load of the busiest device, where slots
    are experts. sent_share, saved_share: bytes of the value in a redistribution, and of a copy
    saved for the backward pass, relative to `bytes`; less than 1 for what is sent or saved in 8
    bits. top_k: experts of a token, where the value is of tokens that travel once to each node; 0
    for others.
    """

    slot_sizes: tuple[int, ...]
    axis_sizes: tuple[int, ...]
    bytes: int
    has_gradient: bool
    spans: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    load: ExpertLoad | None = None
    sent_share: float = 1.0
    saved_share: float = 1.0
    top_k: int = 0

    @property
    def slots(self) -> int:
        return len(self.slot_sizes)

    @property
    def base(self) -> int:
        return self.slots + 3

    @cached_property
    def table(self) -> StateTable:
        """The states as a table, shared by all values with equal cuts."""
        lengths = self.spans or self.slot_sizes
        everyone = prod(self.axis_sizes)
        shared = tuple([gcd(length, everyone) for length in lengths])
        return state_table(shared, self.axis_sizes, self.has_gradient, self.counts)

    @cached_property
    def value_alone(self) -> StateSpace:
        """The layouts of the value without its gradient, which are those of the gradient too."""
        alone = replace(self, has_gradient=False, sent_share=1.0, saved_share=1.0)
        return self if alone == self else alone

    @cached_property
    def as_sent(self) -> StateSpace:
        """The layouts of the value with the bytes that a redistribution sends."""
        return replace(self, bytes=round(self.bytes * self.sent_share)).value_alone

    @property
    def states(self) -> IntArray:
        """Every valid state, in lexicographic order; not to be written to."""
        return self.table.states

    def key(self, states: IntArray) -> IntArray:
        """States as numbers of base n + 3."""
        return states @ self.table.weights

    def index(self, states: IntArray) -> IntArray:
        """Positions of `states` in `self.states`; -1 where a state is not valid."""
        return self.table.index(states)

    def valid(self, states: IntArray) -> NDArray[np.bool_]:
        return self.index(states) >= 0

    def local_bytes(self, states: IntArray) -> FloatArray:
        """Bytes of the value on the fullest device in each state."""
        even = self._even_bytes(states)
        return even if self.load is None else even * self.load.of(states, self.axis_sizes)

    def saved_bytes(self, states: IntArray) -> FloatArray:
        """Bytes of a copy that is saved for the backward pass, on the fullest device."""
        local = self.local_bytes(states)
        return local if self.saved_share == 1.0 else local * self.saved_share

    def _even_bytes(self, states: IntArray) -> FloatArray:
        sizes = np.array(self.axis_sizes, dtype=np.float64)
        ways: FloatArray = np.where(states < self.slots, sizes, 1.0).prod(axis=1)
        if not self.spans:
            return self.bytes / ways
        over, under = self._stretch(self._on(states))
        return self.bytes * over / (ways * under)

    def filled(self, states: IntArray, others: IntArray) -> FloatArray:
        """The growth factor of the first states' bytes in a collective between the two states.

        Slots that only the second state cuts are sent filled up to their span.
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
        """The products of spans and of sizes, as two numbers because their ratio would round."""
        over: FloatArray = np.where(on, np.array(self.spans, dtype=np.float64), 1.0).prod(axis=1)
        under: FloatArray = np.where(on, np.array(self.slot_sizes, dtype=np.float64), 1.0).prod(
            axis=1
        )
        return over, under
