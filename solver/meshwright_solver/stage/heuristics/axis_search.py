"""The search on one axis: every op with its weight, the cheapest choice within a limit.

Tables of one axis are tiny: the cheapest choice at any price of memory takes a millisecond
(`search/elimination/small_tables.py`). If the cheapest of all exceeds the limit, the search looks
for the best price (`search/elimination/memory_price.py`). The remaining gap is smaller than the
effect of the axes inside.
"""

from __future__ import annotations

from functools import cached_property
from math import inf

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.folding.fold import Folding
from meshwright_solver.folding.weighted_graph import WeightedGraph
from meshwright_solver.lowering.lower import Lowered
from meshwright_solver.search.core.cost_graph import CostGraph
from meshwright_solver.search.core.crossover import crossed
from meshwright_solver.search.core.incumbent import Incumbent
from meshwright_solver.search.core.interned_tables import CostWeights
from meshwright_solver.search.core.memory_bracket import PricedChoice
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.search.elimination.memory_price import Cross, peak
from meshwright_solver.search.elimination.small_tables import DirectElimination, DirectSolution

# chosen: the gap at which the search for a price of memory ends
TOLERANCE = 1e-3


class AxisSearch:
    """A lowered folded problem on one axis, for any limit."""

    def __init__(self, folding: Folding, lowered: Lowered) -> None:
        self.lowered = lowered
        self._weighted = WeightedGraph(folding, lowered)

    def graph(self, memory_limit_bytes: float) -> CostGraph:
        """The cost graph of the search."""
        return self._weighted.graph(memory_limit_bytes)

    def cheapest(self, memory_limit_bytes: float, cross: Cross = crossed) -> IntArray | None:
        """The cheapest choice within the limit; None where there is none.

        cross: builds a choice between two choices on either side of the limit.
        """
        if not self._direct.is_small:
            graph = self.graph(memory_limit_bytes)
            return dynamic_programming(graph, SearchBudget(tolerance=TOLERANCE)).choice
        if self._cheapest.value == inf:
            return None
        choice = self._cheapest.choice()
        if self._direct.memory_bytes(choice) <= memory_limit_bytes:
            return choice
        if self._direct.memory_bytes(self._leanest.choice()) > memory_limit_bytes:
            return None
        return self._within(self.graph(memory_limit_bytes), cross)

    def _within(self, graph: CostGraph, cross: Cross) -> IntArray | None:
        """The choice for a limit between the memory of the leanest and of the cheapest choice."""
        incumbent = Incumbent(graph, TOLERANCE, None)
        cheapest, leanest = self._cheapest.choice(), self._leanest.choice()
        over = PricedChoice(cheapest, incumbent.offer(cheapest, "cost"))
        within = PricedChoice(leanest, incumbent.offer(leanest, "memory"))
        incumbent.raise_bound(over.cost.cost_ns, "cost")
        peak(self._at, over, within, incumbent, cross)
        return incumbent.choice

    def _at(self, ns_per_byte: float) -> DirectSolution:
        return self._direct.least(CostWeights(1.0, ns_per_byte))

    @cached_property
    def _direct(self) -> DirectElimination:
        weighted = self._weighted
        return DirectElimination(self.lowered.graph, weighted.of_nodes, weighted.of_edges)

    @cached_property
    def _cheapest(self) -> DirectSolution:
        return self._at(0.0)

    @cached_property
    def _leanest(self) -> DirectSolution:
        return self._direct.least(CostWeights(0.0, 1.0))
