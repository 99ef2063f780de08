"""The evaluator of solutions: cost and memory of a choice, computed from the file alone.

It shares no code with the engines, CostGraph included. Sums are exact: costs by math.fsum, usage
over time in whole numbers, or in fractions where a usage is not whole.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from meshwright.schema import InvalidInput
from meshwright.schema.cost_graph import FORBIDDEN_FROM, CostGraphProblem

_ROUNDING = 1e-12  # chosen: of the limit; the error of running sums of doubles, in any order


@dataclass(frozen=True, slots=True)
class SolutionScore:
    """Cost, peak usage and its first time, None where nothing is ever live.

    is_allowed: no forbidden strategy or pair is taken. is_within: the limit is kept at all times.
    """

    cost: float
    peak_usage: float
    peak_time: int | None
    is_allowed: bool
    is_within: bool


def score_solution(problem: CostGraphProblem, choice: Sequence[int]) -> SolutionScore:
    """The score of a choice. Raises InvalidInput for a missing, surplus or unknown strategy.

    Linear in nodes and edges, but for the sorting of times: 0.2 s for 35,000 nodes.
    """
    nodes, edges = problem.nodes, problem.edges
    if len(choice) != len(nodes.costs):
        raise InvalidInput(
            f"the choice has {len(choice):,} entries, the cost graph {len(nodes.costs):,} nodes"
        )
    for number, (strategy, costs) in enumerate(zip(choice, nodes.costs, strict=True)):
        if not 0 <= strategy < len(costs):
            raise InvalidInput(
                f"node {number}: there is no strategy {strategy}. Use 0 to {len(costs) - 1}"
            )
    parts = [costs[strategy] for strategy, costs in zip(choice, nodes.costs, strict=True)]
    parts += [
        costs[choice[a] * len(nodes.costs[b]) + choice[b]]
        for (a, b), costs in zip(edges.nodes, edges.costs, strict=True)
    ]
    peak, peak_time = _peak(problem, choice)
    limit = math.inf if problem.usage_limit is None else problem.usage_limit
    is_rounded = isinstance(peak, Fraction) or peak > 2**53
    return SolutionScore(
        cost=math.fsum(parts),
        peak_usage=float(peak),
        peak_time=peak_time,
        is_allowed=max(parts, default=0.0) < FORBIDDEN_FROM,
        is_within=peak <= limit * (1 + _ROUNDING * is_rounded),
    )


def _peak(problem: CostGraphProblem, choice: Sequence[int]) -> tuple[int | Fraction, int | None]:
    """The most usage at any one time, and the first time at which it is that much."""
    used = [row[strategy] for strategy, row in zip(choice, problem.nodes.usages, strict=True)]
    exact = int if all(usage.is_integer() for usage in used) else Fraction
    change: dict[int, int | Fraction] = defaultdict(int)  # of the usage from this time on
    for (start, end), usage in zip(problem.nodes.intervals, used, strict=True):
        if start < end:
            change[start] += exact(usage)
            change[end] -= exact(usage)
    peak: int | Fraction = 0
    now: int | Fraction = 0
    peak_time = min(change, default=None)
    for time in sorted(change):
        now += change[time]
        if now > peak:
            peak, peak_time = now, time
    return peak, peak_time
