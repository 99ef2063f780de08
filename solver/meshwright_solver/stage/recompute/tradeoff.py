"""Recomputation op by op: the sets of ops worth recomputing, from none to all that free memory.

Let b(S) be the bytes that a set S of ops leaves saved, and t(S) its recomputation time. A price p
of a byte selects the set with the least t(S) + p b(S): in every block a minimum cut. The sets that
some price selects are the vertices of the lower convex hull of all points (b, t), and so have the
least time for as many bytes; they are the *rungs*. Two neighbours meet at the price

    p = (t(S') - t(S)) / (b(S) - b(S'))

at which the cut gives one of them, or a vertex between. Between two rungs some blocks, the first,
have the heavier one.

Only a plan shows which rung is best, since the worth of free memory depends on the sharding. The
step time as a function of the rung is assumed to fall and then to rise; bisection finds the least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.recomputed_ops import NOTHING, RecomputedOps
from meshwright_solver.problem.values import Values
from meshwright_solver.stage.recompute.blocks import BlockNames, blocks
from meshwright_solver.stage.recompute.policies import Choice

FINEST = 8  # chosen: an eighth of the blocks; each halving takes a plan
MOST_BYTES_NS = 1e6  # chosen: ns for a byte, more than any op takes to produce it


@dataclass(frozen=True, slots=True)
class Rung:
    """The recomputation at a price of a byte; saved_bytes, ns: of all blocks, on one device."""

    price: float
    remade: RecomputedOps
    saved_bytes: int
    ns: float


@dataclass(frozen=True, slots=True)
class Ladder:
    """rungs: from no recomputation to as few saved bytes as possible."""

    problem: Problem
    values: Values
    blocks: tuple[range, ...]
    rungs: tuple[Rung, ...]

    def between(self, place: int, heavy: int) -> RecomputedOps:
        """The first `heavy` blocks as in the rung at `place`, the others as in the one before."""
        light, rung = self.rungs[place - 1 : place + 1]
        prices = [rung.price] * heavy + [light.price] * (len(self.blocks) - heavy)
        return Choice(self.problem, self.values, "ops").of(self.blocks, prices)


def ladder(
    problem: Problem,
    values: Values,
    count: int | None = None,
    names: BlockNames | None = None,
) -> Ladder:
    """problem, count, names: see `meshwright_solver.stage.recompute.policies.remade`."""
    chosen_blocks = tuple(blocks(problem, values, names)[:count]) if problem.training else ()
    if not chosen_blocks:
        return Ladder(problem, values, chosen_blocks, (Rung(0.0, NOTHING, 0, 0.0),))

    def rung(price: float) -> Rung:
        choice = Choice(problem, values, "ops")
        recomputed = choice.of(chosen_blocks, [price] * len(chosen_blocks))
        return Rung(price, recomputed, choice.saved_bytes, choice.ns)

    first, last = rung(0.0), rung(MOST_BYTES_NS)
    rungs = (first,) if last.saved_bytes >= first.saved_bytes else _hull(rung, first, last)
    return Ladder(problem, values, chosen_blocks, rungs)


def _hull(rung: Callable[[float], Rung], light: Rung, heavy: Rung) -> tuple[Rung, ...]:
    """All vertices from one to the other."""
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
    """Evaluate the steps of rungs, and of mixes of two, until the least is among them.

    step_ns: of a plan with this recomputation; inf where none fits.
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
        mixed_ns = step_ns(steps.between(low, middle))
        if mixed_ns <= best:
            best, heavy = mixed_ns, middle
        else:
            light = middle
