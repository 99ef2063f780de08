"""Choices along the price of memory: vertices of the lower hull of cost over memory.

For every price m >= 0 of a byte some choice has the least cost + m * memory. These choices are the
vertices of a convex line below which no choice lies. Between two neighbours lies what repeats of a
block take together of which some choose as in the one and the others as in the other. The line is
found from its ends inwards, first where two neighbours differ most in cost.
"""

from __future__ import annotations

from itertools import pairwise

from meshwright_solver.common.deadline import Deadline
from meshwright_solver.search.core.cost_graph import evaluate_choice
from meshwright_solver.search.core.interned_tables import CostWeights
from meshwright_solver.search.core.memory_bracket import PricedChoice, PricedStates, meeting_price
from meshwright_solver.search.elimination.evaluated_program import Solution, solve

_LEANEST = 1e3  # chosen: a thousandth of the memory is then worth all of the cost
_STRAIGHT = 2e-3  # chosen: of the cost; a vertex nearer to the line makes no difference


def hull(
    cheapest: Solution, most: int, least_bytes: float, deadline: Deadline
) -> list[PricedStates]:
    """Vertices from the cheapest to the leanest, so many at the most.

    cheapest: under a price of 0. least_bytes: below it the line is not followed, but for its end.
    Raises OutOfTime.
    """

    def at(ns_per_byte: float) -> PricedStates:
        solution = solve(cheapest.program, CostWeights(1.0, ns_per_byte), deadline, cheapest)
        choice = solution.choice()
        return PricedChoice(choice, evaluate_choice(cheapest.program.graph, choice))

    choice = cheapest.choice()
    first = PricedChoice(choice, evaluate_choice(cheapest.program.graph, choice))
    if most == 1 or not first.cost.memory_bytes:
        return [first]
    found = [first, at(_LEANEST * first.cost.cost_ns / first.cost.memory_bytes)]
    if not _is_leaner(found[1], first):
        return [first]
    straight: set[tuple[int, int]] = set()
    while len(found) < most:
        pairs = [
            (own.cost.cost_ns - over.cost.cost_ns, place)
            for place, (over, own) in enumerate(pairwise(found), start=1)
            if over.cost.memory_bytes > least_bytes and (id(over), id(own)) not in straight
        ]
        if not pairs:
            break
        dearer_ns, place = max(pairs)
        over, own = found[place - 1], found[place]
        if dearer_ns <= _STRAIGHT * first.cost.cost_ns:
            break
        price = meeting_price(over, own)
        middle = at(price)
        below_ns = over.cost.cost_ns - middle.cost.cost_ns
        below_ns += price * (over.cost.memory_bytes - middle.cost.memory_bytes)
        if below_ns <= _STRAIGHT * first.cost.cost_ns:
            straight.add((id(over), id(own)))
        else:
            found.insert(place, middle)
    return found


def _is_leaner(own: PricedStates, other: PricedStates) -> bool:
    return own.cost.memory_bytes < other.cost.memory_bytes and own.cost.cost_ns > other.cost.cost_ns
