"""Where a pipeline is cut: stages of consecutive ops, the slowest as fast as can be.

    minimise    max over stages s of  sum of ns of its ops + what its cut sends
    subject to  static bytes of its ops + in_flight[s] * saved bytes of its ops <= limit[s]

by dynamic programming over the places where a cut sends least (Alpa and PipeDream search so too).
How long the whole step then takes depends on where the slow stages stand too: `moved` shifts cuts
while that gets better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numba
import numpy as np

from meshwright.schema import DTYPE_BYTES
from solver.cost_graph import FloatArray
from solver.pipeline.stage_graph import Anatomy
from solver.states import IntArray

_REACH = 6  # chosen: places to each side, a layer or two
_LEAST_GAIN = 1e-6  # chosen: rounding
_MOST_PLACES = 512  # chosen: some for every layer of a model of a hundred


@dataclass(frozen=True)
class Weights:
    """By position in `anatomy.order`: ns of one step; bytes that the ops hold whatever runs, and
    that they save of every microbatch."""

    ns: FloatArray
    static_bytes: FloatArray
    saved_bytes: FloatArray

    @cached_property
    def _until(self) -> FloatArray:
        """Bytes up to each position, in both ways."""
        own = self.static_bytes, self.saved_bytes
        return np.stack([np.append(0.0, np.cumsum(values)) for values in own])

    def between(self, bounds: Sequence[int]) -> FloatArray:
        """Static and saved bytes of the stretches between these positions."""
        found: FloatArray = np.diff(self._until[:, bounds])
        return found

    def by_bytes(self, held: int) -> Weights:
        """For cuts that balance the bytes of so many microbatches instead of the time."""
        held_bytes = self.static_bytes + held * self.saved_bytes
        return Weights(held_bytes, self.static_bytes, self.saved_bytes)


def crossing_bytes(anatomy: Anatomy, symbols: Mapping[str, int]) -> FloatArray:
    """By position in `anatomy.order`: bytes of all tensors that a cut before it sends, whole."""
    shapes = anatomy.graph.instantiate(symbols)
    change = np.zeros(len(anatomy.order) + 1)
    for name, last in anatomy.last_read_at.items():
        size = prod(shapes[name]) * DTYPE_BYTES[anatomy.graph.tensor(name).dtype]
        change[anatomy.made_at[name] + 1] += size
        change[last + 1] -= size
    return np.cumsum(change)[:-1]


def places(crossing: FloatArray) -> IntArray:
    """Positions before which a cut sends no more than one position earlier would."""
    before = np.append(np.inf, crossing[1:-1])
    least: IntArray = np.arange(1, len(crossing))[crossing[1:] <= before]
    if len(least) > _MOST_PLACES:
        cheapest = np.argsort(crossing[least], kind="stable")[:_MOST_PLACES]
        least = np.sort(least[cheapest])
    return least


@dataclass(frozen=True, slots=True)
class Room:
    """Which cuts keep the memory: in_flight by stage, limit_bytes of each."""

    weights: Weights
    in_flight: Sequence[int]
    limit_bytes: float

    def holds(self, cuts: Sequence[int]) -> bool:
        static, saved = self.weights.between([0, *cuts, len(self.weights.ns)])
        return bool((static + np.array(self.in_flight) * saved <= self.limit_bytes).all())


def moved(
    cuts: tuple[int, ...],
    at: IntArray,
    room: Room,
    step_ns: Callable[[tuple[int, ...]], float],
    tries: int,
) -> tuple[tuple[int, ...], float]:
    """Cuts that no shift of one of them by some places makes faster, and their step, after so many
    tries at the most."""
    best, best_ns = cuts, step_ns(cuts)
    left = tries
    improved = True
    while improved and left > 0:
        improved = False
        for number in range(len(best)):
            for place in _near(best, number, at):
                tried = (*best[:number], place, *best[number + 1 :])
                left -= 1
                if left > 0 and room.holds(tried):
                    ns = step_ns(tried)
                    if ns < best_ns * (1 - _LEAST_GAIN):
                        best, best_ns, improved = tried, ns, True
    return best, best_ns


def _near(cuts: tuple[int, ...], number: int, at: IntArray) -> list[int]:
    """Places about a cut and between its neighbours."""
    here = int(np.searchsorted(at, cuts[number]))
    low = cuts[number - 1] if number else 0
    high = cuts[number + 1] if number + 1 < len(cuts) else np.inf
    around = at[max(here - _REACH, 0) : here + _REACH + 1].tolist()
    return [place for place in around if low < place < high and place != cuts[number]]


def balanced(
    weights: Weights,
    at: IntArray,
    send_ns: FloatArray,
    in_flight: Sequence[int],
    limit_bytes: float,
) -> tuple[int, ...] | None:
    """The best cuts into `len(in_flight)` stages, None where none keeps the limit.

    at: positions where cuts may be. send_ns: by position, what a cut before it costs its stage.
    """
    ends = np.concatenate([[0], at, [len(weights.ns)]]).astype(np.int64)
    stages, count = len(in_flight), len(ends)
    if stages > count - 1:
        return None
    ns, static, saved = (
        np.concatenate([[0.0], np.cumsum(own)])[ends]
        for own in (weights.ns, weights.static_bytes, weights.saved_bytes)
    )
    send = np.concatenate([[0.0], send_ns[at], [0.0]])
    held = np.array(in_flight, dtype=np.float64)
    choices, best_ns = _balanced(ns, static, saved, send, held, limit_bytes)
    if not np.isfinite(best_ns):
        return None
    cuts = [count - 1]
    for choice in choices[::-1]:
        cuts.append(int(choice[cuts[-1]]))
    return tuple(int(ends[place]) for place in reversed(cuts[1:-1]))


@numba.njit(cache=True, nogil=True)
def _balanced(
    ns: FloatArray,
    static: FloatArray,
    saved: FloatArray,
    send: FloatArray,
    in_flight: FloatArray,
    limit_bytes: float,
) -> tuple[IntArray, float]:
    """By stage and the place where it ends, where it best begins; how long the slowest then takes.

    A stage that begins earlier takes longer and holds more, so that no more are looked at than can
    be better.
    """
    count = ns.size
    best = np.full(count, np.inf)
    best[0] = 0.0
    choices = np.zeros((in_flight.size, count), dtype=np.int64)
    for stage in range(in_flight.size):
        found = np.full(count, np.inf)
        for last in range(1, count):
            for first in range(last - 1, -1, -1):
                own = ns[last] - ns[first]
                size = static[last] - static[first]
                size += in_flight[stage] * (saved[last] - saved[first])
                if size > limit_bytes or own >= found[last]:
                    break
                own = max(best[first], own + send[first])
                if own < found[last]:
                    found[last] = own
                    choices[stage, last] = first
        best = found
    return choices, best[-1]
