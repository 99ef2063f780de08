"""The incumbent, which is the best choice so far, and the lower bound:

    lower_bound_ns <= least cost of any choice within the limit <= cost_ns
    gap = (cost_ns - lower_bound_ns) / |cost_ns|

Sums of floats in another order differ in their last digits. Bounds within ROUNDING of a cost count
as equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.search.core.cost_graph import ChoiceCost, CostGraph, evaluate_choice

ROUNDING = 1e-12  # chosen: 4,000 additions in doubles err by less


@dataclass(frozen=True, slots=True)
class SearchStep:
    """A progress event: the stage, the best cost (None before the first) and the lower bound."""

    stage: str
    cost_ns: float | None
    lower_bound_ns: float


Report = Callable[[SearchStep], None]


class Incumbent:
    def __init__(self, graph: CostGraph, tolerance: float, report: Report | None) -> None:
        self.graph = graph
        self.limit_bytes = graph.memory_limit_bytes
        self.tolerance = tolerance
        self.choice: IntArray | None = None
        self.cost_ns = math.inf
        self.memory_bytes = math.nan
        self.lower_bound_ns = -math.inf
        self._report = report

    def offer(self, choice: IntArray, stage: str) -> ChoiceCost:
        """Take the choice if it is within the limit and cheaper; return its cost in any case."""
        cost = evaluate_choice(self.graph, choice)
        limit = self.limit_bytes
        if (limit is None or cost.memory_bytes <= limit) and cost.cost_ns < self.cost_ns:
            self.choice = choice
            self.cost_ns = cost.cost_ns
            self.memory_bytes = cost.memory_bytes
            self._tell(stage)
        return cost

    def with_less(self, limit_bytes: float) -> Incumbent:
        """An incumbent without a choice, for a lower limit. It reports the bound of this one and
        proves its own."""

        def report(step: SearchStep) -> None:
            if self._report is not None:
                self._report(replace(step, lower_bound_ns=self.lower_bound_ns))

        incumbent = Incumbent(self.graph, self.tolerance, report)
        incumbent.limit_bytes = limit_bytes
        return incumbent

    def raise_bound(self, lower_bound_ns: float, stage: str) -> None:
        if lower_bound_ns > self.lower_bound_ns:
            self.lower_bound_ns = lower_bound_ns
            self._tell(stage)

    def allowance_ns(self) -> float:
        """The saving in ns below which the search ignores better choices."""
        return max(self.tolerance, ROUNDING) * abs(self.cost_ns)

    def is_closed(self) -> bool:
        rounding = ROUNDING * abs(self.cost_ns)
        return self.choice is not None and (
            self.cost_ns - self.lower_bound_ns <= self.allowance_ns() + rounding
        )

    def _tell(self, stage: str) -> None:
        if self._report is not None:
            cost = None if self.choice is None else self.cost_ns
            bound = min(self.lower_bound_ns, self.cost_ns)
            self._report(SearchStep(stage, cost, bound))
