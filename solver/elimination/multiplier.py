"""The price of memory: for a multiplier m >= 0

    L(m) = min over choices of cost + m * (memory - limit)   <=   least cost within the limit

L is concave and piecewise linear. Two choices bracket its peak, one above the limit and one within
it; the next multiplier is where their lines meet, until no choice lies below both lines (LARAC).
Every choice within the limit is offered to the incumbent.
"""

from __future__ import annotations

from solver.cost_graph import ChoiceCost
from solver.deadline import Deadline
from solver.elimination.solution import Solution, Weights, solve
from solver.incumbent import ROUNDING, Incumbent

_MULTIPLIERS_TRIED = 40  # chosen: 6 to 12 do on planning graphs
# chosen: on 32 layers of bench/transformer_graph.py at a tight limit, labels of width 1 then left a
# gap of 0.3 %, without these 4.7 %.
_BESIDE = (0.9, 1.1)

STAGE = "multiplier"


def peak(
    cheapest: Solution,
    over: ChoiceCost,
    within: ChoiceCost,
    incumbent: Incumbent,
    deadline: Deadline,
) -> Solution | None:
    """The solution under the best multiplier found, None where the incumbent closed before any.

    `cheapest` minimises cost alone and costs `over`, above the limit; `within` is some choice's
    cost. Raises OutOfTime.
    """
    limit = incumbent.graph.memory_limit_bytes
    assert limit is not None
    best: Solution | None = None
    best_bound = incumbent.lower_bound_ns
    for _ in range(_MULTIPLIERS_TRIED):
        if incumbent.is_closed():
            return best
        multiplier = (within.cost_ns - over.cost_ns) / (over.memory_bytes - within.memory_bytes)
        solution = solve(cheapest.program, Weights(1.0, multiplier), deadline, cheapest)
        rounding = ROUNDING * (abs(solution.value) + multiplier * limit)
        bound = solution.value - multiplier * limit - rounding
        if best is None or bound > best_bound:
            best, best_bound = solution, max(bound, best_bound)
        incumbent.raise_bound(bound, STAGE)
        found = incumbent.offer(solution.choice(), STAGE)
        line = over.cost_ns + multiplier * over.memory_bytes
        if solution.value >= line - 2 * ROUNDING * (abs(line) + multiplier * limit):
            return best
        if found.memory_bytes > limit:
            over = found
        else:
            within = found
    return best


def beside(
    peak: Solution, cheapest: Solution, incumbent: Incumbent, deadline: Deadline
) -> list[Solution]:
    """Solutions a little off the peak: they tell which partial choices need a dearer or cheaper
    rest.

    Raises OutOfTime.
    """
    found = []
    for factor in _BESIDE:
        weights = Weights(1.0, peak.weights.memory * factor)
        solution = solve(peak.program, weights, deadline, cheapest)
        incumbent.offer(solution.choice(), STAGE)
        found.append(solution)
    return found
