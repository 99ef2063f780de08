"""Choices along the price of memory: the vertices of the lower hull of cost over memory.

For every price m >= 0 of a byte some choice has the least cost + m * memory. These choices are the
vertices of a convex line below which no choice lies. Between two neighbours lie the mixtures, in
which some repeats of a block choose as one vertex and the others as the other. The line is refined
from its ends, first where two neighbours differ most in cost.
"""

from __future__ import annotations

from itertools import pairwise

from meshwright_solver.common.deadline import Deadline
from meshwright_solver.search.core.cost_graph import evaluate_choice
from meshwright_solver.search.core.interned_tables import CostWeights
from meshwright_solver.search.core.memory_bracket import PricedChoice, PricedStates, meeting_price
from meshwright_solver.search.elimination.evaluated_program import Solution, solve

_LEANEST = 1e3  # chosen: at this price a thousandth of the memory is worth all of the cost
_STRAIGHT = 2e-3  # chosen: of the cost; a vertex nearer to the line makes no difference


def hull(
    cheapest: Solution, most: int, least_bytes: float, deadline: Deadline
) -> list[PricedStates]:
    """The vertices from the cheapest to the leanest, at most `most`.

    cheapest: the solution at price 0. least_bytes: below it only the end of the line is searched.
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
    vertices = [first, at(_LEANEST * first.cost.cost_ns / first.cost.memory_bytes)]
    if not _is_leaner(vertices[1], first):
        return [first]
    straight: set[tuple[int, int]] = set()
    while len(vertices) < most:
        pairs = [
            (leaner.cost.cost_ns - over.cost.cost_ns, place)
            for place, (over, leaner) in enumerate(pairwise(vertices), start=1)
            if over.cost.memory_bytes > least_bytes and (id(over), id(leaner)) not in straight
        ]
        if not pairs:
            break
        dearer_ns, place = max(pairs)
        over, leaner = vertices[place - 1], vertices[place]
        if dearer_ns <= _STRAIGHT * first.cost.cost_ns:
            break
        price = meeting_price(over, leaner)
        middle = at(price)
        below_ns = over.cost.cost_ns - middle.cost.cost_ns
        below_ns += price * (over.cost.memory_bytes - middle.cost.memory_bytes)
        if below_ns <= _STRAIGHT * first.cost.cost_ns:
            straight.add((id(over), id(leaner)))
        else:
            vertices.insert(place, middle)
    return vertices


def _is_leaner(choice: PricedStates, other: PricedStates) -> bool:
    return (
        choice.cost.memory_bytes < other.cost.memory_bytes
        and choice.cost.cost_ns > other.cost.cost_ns
    )
