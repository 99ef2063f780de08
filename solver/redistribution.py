"""Redistribution: the cheapest sequence of collectives between any two states of a value.

A *move* changes the codes of some axes, all in the same way, with one collective over their group:

    from to   forward          backward             payload on one device
    S    R    all_gather       slice                the gathered value
    S    V    all_gather       reduce_scatter       the gathered value, the unreduced gradient
    S    S'   all_to_all       all_to_all           the local part
    S    P    mask             slice                -
    P    S    reduce_scatter   all_gather           the partial value, the gathered gradient
    P    R    all_reduce       -                    the partial value
    P    V    all_reduce       all_reduce           the partial value, the partial gradient
    R    S    slice            all_gather           - , the gathered gradient
    R    V    -                all_reduce           - , the partial gradient
    R    P    mask             -                    -
    V    S    slice            mask                 -

Of the axes on one slot a collective takes or gives the fastest: they cut what the others leave
into neighbours. Where an axis that moves is followed by one on the same slot that stays, the parts
change places first (permute, once each way: a send over the slowest link that is crossed).

V to R would need a reduction that nobody asks for and is no move. The cost of a pair is that of the
shortest path of moves, forward and backward together (Floyd-Warshall over all states); without a
gradient only the forward halves exist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, cast

import numba
import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Collective, Extents, Interconnect, collective_cost
from solver.states import FloatArray, IntArray, StateSpace

Kind = Literal["S", "R", "P", "V"]
Half = Literal[
    "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "permute", "slice", "mask", "none"
]  # fmt: skip

# (from, to) -> forward, backward, whether the payload is the state after the move (else before)
_MOVES: dict[tuple[Kind, Kind], tuple[Half, Half, bool]] = {
    ("S", "R"): ("all_gather", "slice", True),
    ("S", "V"): ("all_gather", "reduce_scatter", True),
    ("S", "S"): ("all_to_all", "all_to_all", True),
    ("S", "P"): ("mask", "slice", True),
    ("P", "S"): ("reduce_scatter", "all_gather", False),
    ("P", "R"): ("all_reduce", "none", False),
    ("P", "V"): ("all_reduce", "all_reduce", False),
    ("R", "S"): ("slice", "all_gather", False),
    ("R", "V"): ("none", "all_reduce", False),
    ("R", "P"): ("mask", "none", False),
    ("V", "S"): ("slice", "mask", False),
}
_COLLECTIVES: dict[Half, Collective | None] = {
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_reduce": "all_reduce",
    "all_to_all": "all_to_all",
    "permute": None,
    "slice": None,
    "mask": None,
    "none": None,
}


def _relax(total: FloatArray, forward: FloatArray, following: NDArray[np.int32]) -> None:
    count = total.shape[0]
    for via in range(count):
        after = total[via]
        for source in range(count):
            first = total[source, via]
            row = total[source]
            shorter = 0
            if first < np.inf:  # most rows get no shorter: a plain count tells them apart
                for target in range(count):
                    shorter += first + after[target] < row[target]
            if not shorter:
                continue
            for target in range(count):
                through = first + after[target]
                # strictly less by more than rounding: the fewest moves win among equals
                if through < row[target] * (1 - 1e-12) - 1e-9:
                    row[target] = through
                    forward[source, target] = forward[source, via] + forward[via, target]
                    following[source, target] = following[source, via]


# Floyd-Warshall in place; compiled, a tenth of the time of its numpy form
_shorten = cast(
    Callable[[FloatArray, FloatArray, NDArray[np.int32]], None],
    numba.njit(cache=True, nogil=True)(_relax),
)


@dataclass(frozen=True, slots=True)
class Reorder:
    """Parts change places over `axes`, so that the axes that move come last on their slots."""

    axes: tuple[int, ...]
    payload_bytes: float
    ns: float


@dataclass(frozen=True, slots=True)
class Move:
    """One move of a path: positions of its states, the axes whose codes change, its halves.

    reorder_before, reorder_after: in the state before and after it, each way; not in the times.
    """

    before: int
    after: int
    axes: tuple[int, ...]
    forward: Half
    backward: Half
    payload_bytes: float
    forward_ns: float
    backward_ns: float
    reorder_before: Reorder | None
    reorder_after: Reorder | None


def reordered_axes(codes: Sequence[int], moving: Collection[int], slots: int) -> tuple[int, ...]:
    """The axes over which parts change places before or after a move; none where all is well."""
    found: list[int] = []
    for slot in {codes[k] for k in moving if codes[k] < slots}:
        own = [k for k, code in enumerate(codes) if code == slot]
        staying = [k for k in own if k not in moving]
        if staying:
            first = next(k for k in own if k in moving)
            found += [k for k in own if first <= k <= staying[-1]]
    return tuple(sorted(found))


def _kinds_of(states: IntArray, slots: int) -> IntArray:
    return np.maximum(states - slots + 1, 0)


# values that differ in bytes alone, as in the levels of a U-Net, have the same single moves
@lru_cache(maxsize=64)
def _single_moves(
    content: bytes, count: int, axes: int, slots: int
) -> tuple[tuple[tuple[Kind, Kind], tuple[int, ...], IntArray, IntArray], ...]:
    """Kinds before and after, axes that move, and the pairs of states, for all single moves."""
    states = np.frombuffer(content, dtype=np.int64).reshape(count, axes)
    kinds = _kinds_of(states, slots)
    differs = states[:, None, :] != states[None, :, :]
    # a move has one (from, to) on all axes that differ; the greatest code is that of them all
    pair = np.where(differs, 4 * kinds[:, None, :] + kinds[None, :, :], -1)
    greatest = pair.max(axis=2)
    alike = ((pair == greatest[:, :, None]) | ~differs).all(axis=2)
    code = np.where(alike, (greatest << axes) + differs @ (1 << np.arange(axes)), -1)
    letters: tuple[Kind, ...] = ("S", "R", "P", "V")
    found = []
    for source, target in _MOVES:
        move = 4 * letters.index(source) + letters.index(target)
        for group in range(1, 1 << axes):
            rows, columns = np.nonzero(code == (move << axes) + group)
            if len(rows):
                members = tuple(k for k in range(axes) if group >> k & 1)
                found.append(((source, target), members, rows, columns))
    return tuple(found)


@lru_cache(maxsize=64)
def _reorders(
    content: bytes, count: int, axes: int, slots: int
) -> Mapping[tuple[int, ...], tuple[tuple[tuple[int, ...], IntArray], ...]]:
    """Axes that move -> the axes to reorder over, and the states in which that is so."""
    rows = np.frombuffer(content, dtype=np.int64).reshape(count, axes).tolist()
    found = {}
    for group in range(1, 1 << axes):
        members = tuple(k for k in range(axes) if group >> k & 1)
        states: dict[tuple[int, ...], list[int]] = {}
        for state, codes in enumerate(rows):
            over = reordered_axes(codes, members, slots)
            if over:
                states.setdefault(over, []).append(state)
        found[members] = tuple((over, np.array(own)) for over, own in states.items())
    return found


@dataclass(frozen=True)
class Redistributions:
    """All pairs of states of one value.

    axis_levels: the topology level of every mesh axis. order_is_free: axes lie on a slot in the
    order that no move has to change (parameters, whose layouts only ever grow finer).
    """

    space: StateSpace
    axis_levels: tuple[int, ...]
    interconnect: Interconnect
    order_is_free: bool = False

    @cached_property
    def _kinds(self) -> NDArray[np.int64]:
        """0 S, 1 R, 2 P, 3 V for every state and axis."""
        return _kinds_of(self.space.states, self._n)

    @property
    def _n(self) -> int:
        return self.space.slots

    @cached_property
    def _direct(self) -> tuple[FloatArray, FloatArray]:
        """Forward and backward time of single moves; inf where a pair is none."""
        states = self.space.states
        count = len(states)
        forward = np.full((count, count), np.inf)
        backward = np.full((count, count), np.inf)
        np.fill_diagonal(forward, 0.0)
        np.fill_diagonal(backward, 0.0)
        local = self.space.local_bytes(states)
        content = (states.tobytes(), *states.shape, self._n)
        for kinds, axes, rows, columns in _single_moves(*content):
            there, back, after = _MOVES[kinds]
            ends = (columns, rows) if after else (rows, columns)
            payload = local[ends[0]]
            if self.space.spans:
                payload = payload * self.space.filled(states[ends[0]], states[ends[1]])
            reorder = np.zeros(count)
            for over, unordered in () if self.order_is_free else _reorders(*content)[axes]:
                reorder[unordered] = self._permute_ns(over, local[unordered])
            swaps = np.zeros(len(rows))
            swaps += reorder[rows] if kinds[0] == "S" else 0.0
            swaps += reorder[columns] if kinds[1] == "S" else 0.0
            forward[rows, columns] = self._half_ns(there, axes, payload) + swaps
            backward[rows, columns] = (
                self._half_ns(back, axes, payload) + swaps if self.space.has_gradient else 0.0
            )
        return forward, backward

    def _permute_ns(self, axes: tuple[int, ...], payload: FloatArray) -> FloatArray:
        return collective_cost("send", self.extents(axes), self.interconnect).ns(payload)

    def _reorder(self, state: int, axes: tuple[int, ...]) -> Reorder | None:
        if self.order_is_free:
            return None
        codes = self.space.states[state]
        over = reordered_axes(codes.tolist(), axes, self._n)
        if not over:
            return None
        payload = self.space.local_bytes(codes[None, :])
        return Reorder(over, float(payload[0]), float(self._permute_ns(over, payload)[0]))

    def _half_ns(self, half: Half, axes: tuple[int, ...], payload: FloatArray) -> FloatArray:
        collective = _COLLECTIVES[half]
        if collective is None:
            return np.zeros_like(payload)
        return collective_cost(collective, self.extents(axes), self.interconnect).ns(payload)

    def extents(self, axes: tuple[int, ...]) -> Extents:
        """The extents of the groups over some axes of the mesh."""
        sizes = self.space.axis_sizes
        return self.interconnect.extents_of((self.axis_levels[a], sizes[a]) for a in axes)

    @cached_property
    def _closure(self) -> tuple[FloatArray, FloatArray, NDArray[np.int32]]:
        """Total and forward time of the shortest paths, and the state after the first move."""
        forward, backward = self._direct
        total = forward + backward
        forward = forward.copy()
        count = len(total)
        following = np.broadcast_to(np.arange(count, dtype=np.int32), (count, count)).copy()
        _shorten(total, forward, following)
        return total, forward, following

    @property
    def total_ns(self) -> FloatArray:
        """(states, states): forward and backward time from row to column; inf where illegal."""
        return self._closure[0]

    @property
    def forward_ns(self) -> FloatArray:
        """(states, states): the forward part of `total_ns`."""
        return self._closure[1]

    def path(self, source: int, target: int) -> tuple[Move, ...]:
        """The moves of the shortest path between two states, by position."""
        moves = []
        at = source
        while at != target:
            after = int(self._closure[2][at, target])
            moves.append(self._move(at, after))
            at = after
        return tuple(moves)

    def _move(self, before: int, after: int) -> Move:
        states, kinds = self.space.states, self._kinds
        axes = tuple(int(k) for k in np.nonzero(states[before] != states[after])[0])
        letters: tuple[Kind, ...] = ("S", "R", "P", "V")
        source, target = letters[kinds[before, axes[0]]], letters[kinds[after, axes[0]]]
        there, back, uses_after = _MOVES[source, target]
        ends = (after, before) if uses_after else (before, after)
        payload = self.space.local_bytes(states[[ends[0]]])
        payload = payload * self.space.filled(states[[ends[0]]], states[[ends[1]]])
        trained = self.space.has_gradient
        return Move(
            before,
            after,
            axes,
            there,
            back if trained else "none",
            float(payload[0]),
            float(self._half_ns(there, axes, payload)[0]),
            float(self._half_ns(back, axes, payload)[0]) if trained else 0.0,
            self._reorder(before, axes),
            self._reorder(after, axes),
        )
