"""The search on one axis: every op at the weight it has, the cheapest choice within a limit.

Tables of one axis are tiny, so that the cheapest choice of all takes milliseconds, and one at any
price of memory hardly more (`elimination/direct.py`). Only where no price comes near enough does
the whole exact search begin (`solver.dynamic_programming`).
"""

from __future__ import annotations

from functools import cached_property
from math import inf

from solver.cost_graph import CostGraph
from solver.dynamic_programming import dynamic_programming
from solver.elimination.direct import DirectElimination, Least
from solver.elimination.multiplier import Judged, peak
from solver.elimination.solution import Weights
from solver.folding import Folding
from solver.incumbent import Incumbent
from solver.lowering import Lowered
from solver.outcome import Budget
from solver.states import IntArray
from solver.weighted import Weighted

# chosen: an axis is solved to within this of its optimum; what lies inside it changes more
TOLERANCE = 1e-2


class AxisSearch:
    """A lowered folded problem on one axis, for any limit."""

    def __init__(self, folding: Folding, lowered: Lowered) -> None:
        self.lowered = lowered
        self._weighted = Weighted(folding, lowered)

    def graph(self, memory_limit_bytes: float) -> CostGraph:
        """What is searched."""
        return self._weighted.graph(memory_limit_bytes)

    def cheapest(self, memory_limit_bytes: float) -> IntArray | None:
        """The choice of least cost within the limit, None where there is none."""
        if not self._direct.is_small:
            graph = self.graph(memory_limit_bytes)
            return dynamic_programming(graph, Budget(tolerance=TOLERANCE)).choice
        if self._cheapest.value == inf:
            return None
        choice = self._cheapest.choice()
        if self._direct.memory_bytes(choice) <= memory_limit_bytes:
            return choice
        if self._direct.memory_bytes(self._leanest.choice()) > memory_limit_bytes:
            return None
        return self._within(self.graph(memory_limit_bytes))

    def _within(self, graph: CostGraph) -> IntArray | None:
        """The limit lies between what the leanest and what the cheapest choice take."""
        incumbent = Incumbent(graph, TOLERANCE, None)
        cheapest, leanest = self._cheapest.choice(), self._leanest.choice()
        over = Judged(cheapest, incumbent.offer(cheapest, "cost"))
        within = Judged(leanest, incumbent.offer(leanest, "memory"))
        incumbent.raise_bound(over.cost.cost_ns, "cost")
        peak(self._at, over, within, incumbent)
        if incumbent.is_closed():
            return incumbent.choice
        budget = Budget(tolerance=TOLERANCE)
        return dynamic_programming(graph, budget, start=incumbent.choice).choice

    def _at(self, ns_per_byte: float) -> Least:
        return self._direct.least(Weights(1.0, ns_per_byte))

    @cached_property
    def _direct(self) -> DirectElimination:
        weighted = self._weighted
        return DirectElimination(self.lowered.graph, weighted.of_nodes, weighted.of_edges)

    @cached_property
    def _cheapest(self) -> Least:
        return self._at(0.0)

    @cached_property
    def _leanest(self) -> Least:
        return self._direct.least(Weights(0.0, 1.0))
