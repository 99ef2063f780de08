"""The price of memory for elimination, which solves every price exactly.

`meshwright_solver.search.core.memory_bracket` describes the bracket of the peak. Under one price
all repeats of a block choose alike, so that the two choices may lie far from the limit on either
side. The search also tries choices between them, one before a cut and the other behind it. Every
choice within the limit is offered to the incumbent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.search.core.cost_graph import CostGraph
from meshwright_solver.search.core.crossover import crossed
from meshwright_solver.search.core.incumbent import ROUNDING, Incumbent
from meshwright_solver.search.core.memory_bracket import MemoryBracket, PricedChoice, PricedStates

_PRICES_TRIED = 40  # chosen: 6 to 12 are enough on planning graphs
# chosen: on 32 layers of bench/transformer_graph.py at a tight limit, labels of width 1 then left a
# gap of 0.3 %, without these 4.7 %.
_BESIDE = (0.9, 1.1)

STAGE = "multiplier"


class PricedSolution(Protocol):
    """The least of cost + price * memory, and a choice that attains it."""

    @property
    def value(self) -> float: ...

    def choice(self) -> IntArray: ...


S = TypeVar("S", bound=PricedSolution)
Cross = Callable[[CostGraph, IntArray, IntArray, float], IntArray | None]


def peak(
    at: Callable[[float], S],
    over: PricedStates,
    within: PricedStates,
    incumbent: Incumbent,
    cross: Cross = crossed,
) -> tuple[float, S] | None:
    """The best price in ns per byte, and its solution; None where the incumbent is closed before
    any price is tried.

    at: solves under a price. over: the cheapest choice, above the limit; within: some choice within
    it. cross: builds a choice between the two.
    """
    limit = incumbent.graph.memory_limit_bytes
    assert limit is not None
    bracket = MemoryBracket(limit, over, within)
    best: tuple[float, S] | None = None
    best_bound = incumbent.lower_bound_ns

    def solve(price: float) -> PricedStates | None:
        nonlocal best, best_bound
        solution = at(price)
        rounding = ROUNDING * (abs(solution.value) + price * limit)
        bound = solution.value - price * limit - rounding
        if best is None or bound > best_bound:
            best, best_bound = (price, solution), max(bound, best_bound)
        incumbent.raise_bound(bound, STAGE)
        choice = solution.choice()
        line_choice = PricedChoice(choice, incumbent.offer(choice, STAGE))
        line = bracket.pair[0].at(price, 0.0)
        is_below = solution.value < line - 2 * ROUNDING * (abs(line) + price * limit)
        return line_choice if is_below else None

    if incumbent.is_closed():
        return None
    for _ in bracket.narrow(solve, _PRICES_TRIED):
        larger, smaller = (priced.choice for priced in bracket.pair)
        for pair in ((larger, smaller), (smaller, larger)):
            between = cross(incumbent.graph, *pair, incumbent.cost_ns)
            if between is not None:
                incumbent.offer(between, STAGE)
        if incumbent.is_closed():
            break
    return best


def beside(at: Callable[[float], S], price: float, incumbent: Incumbent) -> list[S]:
    """Solutions at prices beside the best one: they bound partial choices that need a dearer or
    cheaper completion."""
    solutions = []
    for factor in _BESIDE:
        solution = at(price * factor)
        incumbent.offer(solution.choice(), STAGE)
        solutions.append(solution)
    return solutions
