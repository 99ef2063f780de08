"""Recompute op by op: the sets of ops worth doing again, from nothing to all that frees memory.

With b(S) the bytes that a set S of ops leaves saved and t(S) the time of doing it again, a price p
of a byte asks for the set with the least t(S) + p b(S): in every block a minimum cut. Those that
some price asks for are the corners of the lower convex hull of all points (b, t), and so the least
time for as many bytes; they are the *rungs*. Two neighbours meet at the price

    p = (t(S') - t(S)) / (b(S) - b(S'))

at which the cut either gives one of them, or a corner between. Between two rungs some blocks, the
first, have the heavier one.

Which rung is best only a plan can say, since free memory is worth what sharding makes of it: its
step as a function of the rung is taken to fall and then to rise, and the least is found by halving.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.recomputed_ops import NOTHING, RecomputedOps
from meshwright_solver.problem.values import Values
from meshwright_solver.stage.recompute.blocks import blocks
from meshwright_solver.stage.recompute.policies import Choice

FINEST = 8  # chosen: an eighth of the blocks; a plan for each halving
MOST_BYTES_NS = 1e6  # chosen: ns for a byte, more than any op takes to make it


@dataclass(frozen=True, slots=True)
class Rung:
    """What is done again at a price of a byte; saved_bytes, ns: of all blocks, on one device."""

    price: float
    remade: RecomputedOps
    saved_bytes: int
    ns: float


@dataclass(frozen=True, slots=True)
class Ladder:
    """rungs: from nothing done again to as few bytes as can be."""

    problem: Problem
    values: Values
    blocks: tuple[range, ...]
    rungs: tuple[Rung, ...]

    def between(self, place: int, heavy: int) -> RecomputedOps:
        """The first blocks as the rung at a place has them, the others as the one before."""
        light, own = self.rungs[place - 1 : place + 1]
        prices = [own.price] * heavy + [light.price] * (len(self.blocks) - heavy)
        return Choice(self.problem, self.values, "ops").of(self.blocks, prices)


def ladder(problem: Problem, values: Values, count: int | None = None) -> Ladder:
    """problem: of the whole graph, with nothing done again. count: only in so many blocks."""
    own = tuple(blocks(problem, values)[:count]) if problem.training else ()
    if not own:
        return Ladder(problem, values, own, (Rung(0.0, NOTHING, 0, 0.0),))

    def rung(price: float) -> Rung:
        choice = Choice(problem, values, "ops")
        made = choice.of(own, [price] * len(own))
        return Rung(price, made, choice.saved_bytes, choice.ns)

    first, last = rung(0.0), rung(MOST_BYTES_NS)
    found = (first,) if last.saved_bytes >= first.saved_bytes else _hull(rung, first, last)
    return Ladder(problem, values, own, found)


def _hull(rung: Callable[[float], Rung], light: Rung, heavy: Rung) -> tuple[Rung, ...]:
    """All corners from one to the other."""
    price = (heavy.ns - light.ns) / (light.saved_bytes - heavy.saved_bytes)
    middle = rung(price)
    between = heavy.saved_bytes < middle.saved_bytes < light.saved_bytes
    below = middle.ns + price * middle.saved_bytes < (light.ns + price * light.saved_bytes) * (
        1 - 1e-9
    )
    if not (between and below):
        return light, heavy
    return (*_hull(rung, light, middle)[:-1], *_hull(rung, middle, heavy))


def descend(
    steps: Ladder, step_ns: Callable[[RecomputedOps], float], go_on: Callable[[], bool]
) -> None:
    """Ask for the steps of rungs, and of what lies between two, until the least is among them.

    step_ns: of a plan that does so much again; inf where none fits.
    """
    known: dict[int, float] = {}

    def at(place: int) -> float:
        if place not in known:
            known[place] = step_ns(steps.rungs[place].remade) if go_on() else inf
        return known[place]

    low, high = 0, len(steps.rungs) - 1
    while low < high:
        middle = (low + high) // 2
        here = at(middle)
        if here < inf and here <= at(middle + 1):
            high = middle
        else:
            low = middle + 1
    best = at(low)
    if low == 0 or best == inf:
        return
    light, heavy = 0, len(steps.blocks)  # blocks at the heavier of two rungs: too few, and enough
    while heavy - light > max(1, len(steps.blocks) // FINEST) and go_on():
        middle = (light + heavy) // 2
        own = step_ns(steps.between(low, middle))
        if own <= best:
            best, heavy = own, middle
        else:
            light = middle
