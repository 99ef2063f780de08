"""Redistribution: the cheapest sequence of collectives between any two states of a value.

A *move* changes the codes of some axes, all in the same way, with one collective over their group:

    from to   forward          backward             payload on one device
    S    R    all_gather       slice                the gathered value
    S    V    all_gather       reduce_scatter       the gathered value, the unreduced gradient
    S    S'   all_to_all       all_to_all           the local part
    P    S    reduce_scatter   all_gather           the partial value, the gathered gradient
    P    R    all_reduce       -                    the partial value
    P    V    all_reduce       all_reduce           the partial value, the partial gradient
    R    S    slice            all_gather           - , the gathered gradient
    R    V    -                all_reduce           - , the partial gradient
    R    P    mask             -                    -
    V    S    slice            -                    -

V to R would need a reduction that nobody asks for and is no move. The cost of a pair is that of the
shortest path of moves, forward and backward together (Floyd-Warshall over all states); without a
gradient only the forward halves exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, cast

import numba
import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Collective, Interconnect, collective_cost
from solver.states import FloatArray, IntArray, StateSpace

Kind = Literal["S", "R", "P", "V"]
Half = Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "slice", "mask", "none"]

# (from, to) -> forward, backward, whether the payload is the state after the move (else before)
_MOVES: dict[tuple[Kind, Kind], tuple[Half, Half, bool]] = {
    ("S", "R"): ("all_gather", "slice", True),
    ("S", "V"): ("all_gather", "reduce_scatter", True),
    ("S", "S"): ("all_to_all", "all_to_all", True),
    ("P", "S"): ("reduce_scatter", "all_gather", False),
    ("P", "R"): ("all_reduce", "none", False),
    ("P", "V"): ("all_reduce", "all_reduce", False),
    ("R", "S"): ("slice", "all_gather", False),
    ("R", "V"): ("none", "all_reduce", False),
    ("R", "P"): ("mask", "none", False),
    ("V", "S"): ("slice", "none", False),
}
_COLLECTIVES: dict[Half, Collective | None] = {
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_reduce": "all_reduce",
    "all_to_all": "all_to_all",
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
class Move:
    """One move of a path: positions of its states, the axes whose codes change, its halves."""

    before: int
    after: int
    axes: tuple[int, ...]
    forward: Half
    backward: Half
    payload_bytes: float
    forward_ns: float
    backward_ns: float


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


@dataclass(frozen=True)
class Redistributions:
    """All pairs of states of one value. axis_levels: the topology level of every mesh axis."""

    space: StateSpace
    axis_levels: tuple[int, ...]
    interconnect: Interconnect

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
        for kinds, axes, rows, columns in _single_moves(states.tobytes(), *states.shape, self._n):
            there, back, after = _MOVES[kinds]
            payload = local[columns if after else rows]
            forward[rows, columns] = self._half_ns(there, axes, payload)
            backward[rows, columns] = (
                self._half_ns(back, axes, payload) if self.space.has_gradient else 0.0
            )
        return forward, backward

    def _half_ns(self, half: Half, axes: tuple[int, ...], payload: FloatArray) -> FloatArray:
        collective = _COLLECTIVES[half]
        if collective is None:
            return np.zeros_like(payload)
        return collective_cost(collective, self.extents(axes), self.interconnect).ns(payload)

    def extents(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        """The extents of the group over some axes of the mesh."""
        found = [1] * len(self.interconnect.levels)
        for axis in axes:
            found[self.axis_levels[axis]] *= self.space.axis_sizes[axis]
        return tuple(found)

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
        payload = self.space.local_bytes(states[[after if uses_after else before]])
        return Move(
            before,
            after,
            axes,
            there,
            back if self.space.has_gradient else "none",
            float(payload[0]),
            float(self._direct[0][before, after]),
            float(self._direct[1][before, after]),
        )
