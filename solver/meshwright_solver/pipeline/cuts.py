"""Cuts of a pipeline into stages of consecutive ops with the fastest slowest stage.

    minimize    max over stages s of  sum of ns of its ops + ns of the transfer of its cut
    subject to  static bytes of its ops + in_flight[s] * saved bytes of its ops <= limit[s]

by dynamic programming over the places where a cut sends least, as in Alpa and PipeDream. Each stage
may have any of several draft plans. The step also depends on the positions of slow stages:
`shifted_cuts` improves the cuts by local search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from meshwright.schema import DTYPE_BYTES
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.pipeline.op_profile import OpProfile
from meshwright_solver.pipeline.stage_graph import Anatomy

_REACH = 6  # chosen: places on each side, a layer or two
_LEAST_GAIN = 1e-6  # chosen: rounding
_MOST_PLACES = 512  # chosen: some for every layer of a model of a hundred


def crossing_bytes(anatomy: Anatomy, symbols: Mapping[str, int]) -> FloatArray:
    """(ops,): bytes of all tensors that a cut before each position sends, unsharded."""
    shapes = anatomy.graph.instantiate(symbols)
    change = np.zeros(len(anatomy.order) + 1)
    for name, last in anatomy.last_read_at.items():
        size = prod(shapes[name]) * DTYPE_BYTES[anatomy.graph.tensor(name).dtype]
        change[anatomy.made_at[name] + 1] += size
        change[last + 1] -= size
    return np.cumsum(change)[:-1]


def places(crossing: FloatArray) -> IntArray:
    """Positions at which a cut sends no more than one position earlier."""
    before = np.append(np.inf, crossing[1:-1])
    least: IntArray = np.arange(1, len(crossing))[crossing[1:] <= before]
    if len(least) > _MOST_PLACES:
        cheapest = np.argsort(crossing[least], kind="stable")[:_MOST_PLACES]
        least = np.sort(least[cheapest])
    return least


def shifted_cuts(
    cuts: tuple[int, ...],
    at: IntArray,
    step_ns: Callable[[tuple[int, ...]], float],
    tries: int,
) -> tuple[tuple[int, ...], float]:
    """Local search: shifts of single cuts until none makes the step faster.

    Returns the cuts and their step. step_ns: infinite for invalid cuts. tries: most evaluations.
    """
    best, best_ns = cuts, step_ns(cuts)
    remaining = tries
    improved = True
    while improved and remaining > 0:
        improved = False
        for number in range(len(best)):
            for place in _near(best, number, at):
                remaining -= 1
                if remaining > 0:
                    tried = (*best[:number], place, *best[number + 1 :])
                    ns = step_ns(tried)
                    if ns < best_ns * (1 - _LEAST_GAIN):
                        best, best_ns, improved = tried, ns, True
    return best, best_ns


def _near(cuts: tuple[int, ...], number: int, at: IntArray) -> list[int]:
    """Candidate places near a cut, between its neighbors."""
    here = int(np.searchsorted(at, cuts[number]))
    low = cuts[number - 1] if number else 0
    high = cuts[number + 1] if number + 1 < len(cuts) else np.inf
    around = at[max(here - _REACH, 0) : here + _REACH + 1].tolist()
    return [place for place in around if low < place < high and place != cuts[number]]


def balanced(
    ways: Sequence[OpProfile],
    at: IntArray,
    send_ns: FloatArray,
    in_flight: FloatArray,
    limit_bytes: FloatArray,
    passing: FloatArray | None = None,
) -> tuple[int, ...] | None:
    """The best cuts into as many stages as `in_flight` has columns; None if none fit.

    ways: op profiles of draft plans; each stage has the fastest that fits. at: candidate positions.
    send_ns: (stages, positions), cost of the cut for the stage behind it. in_flight, limit_bytes:
    (ways, stages). passing: (ways, stages), counted share of transient memory; all by default.
    """
    ends = np.concatenate([[0], at, [send_ns.shape[1]]]).astype(np.int64)
    stages, count = in_flight.shape[1], len(ends)
    if stages > count - 1:
        return None
    until = np.array(
        [
            [
                np.append(0.0, np.cumsum(values))[ends]
                for values in (w.ns, w.static_bytes, w.saved_bytes)
            ]
            for w in ways
        ]
    )
    by = np.array([np.maximum.reduceat(w.passing_bytes, ends[:-1]) for w in ways])
    share = np.ones_like(in_flight) if passing is None else passing
    send = np.pad(send_ns[:, at], ((0, 0), (1, 1)))
    choices, best_ns = _dynamic_program(until, by, send, in_flight, limit_bytes, share)
    if not np.isfinite(best_ns):
        return None
    cuts = [count - 1]
    for choice in choices[::-1]:
        cuts.append(int(choice[cuts[-1]]))
    return tuple(int(ends[place]) for place in reversed(cuts[1:-1]))


@njit(cache=True, nogil=True)
def _dynamic_program(
    until: FloatArray,
    by: FloatArray,
    send: FloatArray,
    in_flight: FloatArray,
    limit_bytes: FloatArray,
    share: FloatArray,
) -> tuple[IntArray, float]:
    """Best first place by stage and last place, (stages, places), and the time of the slowest.

    until: (ways, 3, places), ns, static and saved bytes before each place. by: (ways, places),
    transient bytes from each place to the next. A stage that begins earlier takes longer and holds
    more; the inner loop ends when it cannot improve.
    """
    ways, stages = in_flight.shape
    count = send.shape[1]
    best = np.full(count, np.inf)
    best[0] = 0.0
    choices = np.zeros((stages, count), dtype=np.int64)
    for stage in range(stages):
        ends_ns = np.full(count, np.inf)
        for last in range(1, count):
            for way in range(ways):
                if limit_bytes[way, stage] == -np.inf:
                    continue
                ns, static, saved = until[way, 0], until[way, 1], until[way, 2]
                most = 0.0
                for first in range(last - 1, -1, -1):
                    stage_ns = ns[last] - ns[first]
                    size = static[last] - static[first]
                    size += in_flight[way, stage] * (saved[last] - saved[first])
                    most = max(most, by[way, first])
                    size += share[way, stage] * most
                    if size > limit_bytes[way, stage] or stage_ns >= ends_ns[last]:
                        break
                    stage_ns = max(best[first], stage_ns + send[stage, first])
                    if stage_ns < ends_ns[last]:
                        ends_ns[last] = stage_ns
                        choices[stage, last] = first
        best = ends_ns
    return choices, best[-1]
