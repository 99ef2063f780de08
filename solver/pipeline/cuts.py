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
from itertools import pairwise
from math import prod

import numpy as np

from meshwright.schema import DTYPE_BYTES
from solver.cost_graph import FloatArray
from solver.pipeline.stage_graph import Anatomy
from solver.states import IntArray

_REACH = 6  # chosen: places to each side, a layer or two
_MOST_TRIES = 600  # chosen: at some 0.1 ms each
_LEAST_GAIN = 1e-6  # chosen: rounding
_MOST_PLACES = 512  # chosen: places^2 * stages additions take some 10 ms


@dataclass(frozen=True, slots=True)
class Weights:
    """By position in `anatomy.order`: ns of one step; bytes that the ops hold whatever runs, and
    that they save of every microbatch."""

    ns: FloatArray
    static_bytes: FloatArray
    saved_bytes: FloatArray

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
        weights = self.weights
        return all(
            float(weights.static_bytes[first:last].sum())
            + held * float(weights.saved_bytes[first:last].sum())
            <= self.limit_bytes
            for held, (first, last) in zip(
                self.in_flight, pairwise([0, *cuts, len(weights.ns)]), strict=True
            )
        )


def moved(
    cuts: tuple[int, ...], at: IntArray, room: Room, step_ns: Callable[[tuple[int, ...]], float]
) -> tuple[tuple[int, ...], float]:
    """Cuts that no shift of one of them by some places makes faster, and their step."""
    best, best_ns = cuts, step_ns(cuts)
    left = _MOST_TRIES
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
    sums = [
        np.concatenate([[0.0], np.cumsum(own)])[ends]
        for own in (weights.ns, weights.static_bytes, weights.saved_bytes)
    ]
    ns, static, saved = (own[None, :] - own[:, None] for own in sums)
    ns = ns + np.concatenate([[0.0], send_ns[at], [0.0]])[:, None]
    empty = np.arange(count)[:, None] >= np.arange(count)[None, :]
    best = np.where(np.arange(count) == 0, 0.0, np.inf)
    choices = []
    for held in in_flight:
        ruled_out = empty | (static + held * saved > limit_bytes)
        found = np.maximum(best[:, None], np.where(ruled_out, np.inf, ns))
        choices.append(found.argmin(axis=0))
        best = found.min(axis=0)
    if not np.isfinite(best[-1]):
        return None
    cuts = [count - 1]
    for choice in reversed(choices):
        cuts.append(int(choice[cuts[-1]]))
    return tuple(int(ends[place]) for place in reversed(cuts[1:-1]))
