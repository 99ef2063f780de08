"""The price of memory: for a multiplier m >= 0

    L(m) = min over choices of cost + m * (memory - limit)   <=   least cost within the limit

L is concave and piecewise linear. Two choices bracket its peak, one above the limit and one within
it; the next multiplier is where their lines meet, until no choice lies below both lines (LARAC).
Under one multiplier all repeats of a block choose alike, so that the two may lie far from the limit
on either side: what lies between, one before a cut and the other behind it, is tried too. Every
choice within the limit is offered to the incumbent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from solver.cost_graph import ChoiceCost, CostGraph, IntArray
from solver.crossing import crossed
from solver.incumbent import ROUNDING, Incumbent

_MULTIPLIERS_TRIED = 40  # chosen: 6 to 12 do on planning graphs
# chosen: on 32 layers of bench/transformer_graph.py at a tight limit, labels of width 1 then left a
# gap of 0.3 %, without these 4.7 %.
_BESIDE = (0.9, 1.1)

STAGE = "multiplier"


class Solved(Protocol):
    """The least of cost + m * memory, and a choice that attains it."""

    @property
    def value(self) -> float: ...

    def choice(self) -> IntArray: ...


S = TypeVar("S", bound=Solved)
Cross = Callable[[CostGraph, IntArray, IntArray, float], IntArray | None]


@dataclass(frozen=True, slots=True)
class Judged:
    """A choice and what it costs."""

    choice: IntArray
    cost: ChoiceCost


def peak(
    at: Callable[[float], S],
    over: Judged,
    within: Judged,
    incumbent: Incumbent,
    cross: Cross = crossed,
) -> tuple[float, S] | None:
    """The best multiplier found and its solution, None where the incumbent closed before any.

    at: solves under a multiplier. over: the cheapest choice, above the limit; within: some choice
    within it. cross: what is tried between the two.
    """
    limit = incumbent.graph.memory_limit_bytes
    assert limit is not None
    best: tuple[float, S] | None = None
    best_bound = incumbent.lower_bound_ns
    for _ in range(_MULTIPLIERS_TRIED):
        if incumbent.is_closed():
            return best
        dearer_ns = within.cost.cost_ns - over.cost.cost_ns
        multiplier = dearer_ns / (over.cost.memory_bytes - within.cost.memory_bytes)
        solution = at(multiplier)
        rounding = ROUNDING * (abs(solution.value) + multiplier * limit)
        bound = solution.value - multiplier * limit - rounding
        if best is None or bound > best_bound:
            best, best_bound = (multiplier, solution), max(bound, best_bound)
        incumbent.raise_bound(bound, STAGE)
        choice = solution.choice()
        found = Judged(choice, incumbent.offer(choice, STAGE))
        line = over.cost.cost_ns + multiplier * over.cost.memory_bytes
        if solution.value >= line - 2 * ROUNDING * (abs(line) + multiplier * limit):
            return best
        if found.cost.memory_bytes > limit:
            over = found
        else:
            within = found
        for pair in ((over.choice, within.choice), (within.choice, over.choice)):
            between = cross(incumbent.graph, *pair, incumbent.cost_ns)
            if between is not None:
                incumbent.offer(between, STAGE)
    return best


def beside(at: Callable[[float], S], multiplier: float, incumbent: Incumbent) -> list[S]:
    """Solutions a little off the best: they tell which partial choices need a dearer or cheaper
    rest."""
    found = []
    for factor in _BESIDE:
        solution = at(multiplier * factor)
        incumbent.offer(solution.choice(), STAGE)
        found.append(solution)
    return found
