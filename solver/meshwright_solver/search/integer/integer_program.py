"""Exact search over a cost graph as an integer program.

    1. reductions              solver/meshwright_solver/search/integer/reductions.py
    2. bounds by messages, prices of memory, choices decoded from them   dual.py, pricing.py
    3. states and pairs that only dearer choices take are forbidden; again from 1
    4. the rest: lists of partial choices if no pair remains        knapsack.py
       otherwise OR-tools CP-SAT                                    encoding.py, cp_sat.py

Tables are of one node or two, never larger: this search works where elimination needs a table
that is too large. Rows of memory are added where a solution exceeds the limit.
"""

from __future__ import annotations

import math

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.deadline import OutOfTime
from meshwright_solver.search.core.cost_graph import CostGraph, evaluate_choice
from meshwright_solver.search.core.graph_transforms import memory_as_cost
from meshwright_solver.search.core.incumbent import Report
from meshwright_solver.search.core.outcome import Outcome, SearchBudget
from meshwright_solver.search.core.search_state import SearchState
from meshwright_solver.search.integer.dual import Dual
from meshwright_solver.search.integer.knapsack import cheapest
from meshwright_solver.search.integer.pairs import Pairs, pairs_of
from meshwright_solver.search.integer.pricing import Listener, climb
from meshwright_solver.search.integer.reductions import NoChoice, reduce

_ROUNDS = 6  # chosen: later rounds hardly forbid anything
_WORTH_A_ROUND = 0.9  # chosen: another round needs pairs reduced to this share
_MOST_PAIRS = 3_000_000  # chosen: some 3 GB of literals and clauses


def exact(
    graph: CostGraph,
    budget: SearchBudget,
    report: Report | None = None,
    start: IntArray | None = None,
) -> Outcome:
    """Deterministic unless time runs out. The budget's limits of tables and labels do not apply:
    there are no tables beyond pairs, and no labels."""
    return _Run(graph, budget, report, start).outcome()


class _Run(SearchState):
    def outcome(self) -> Outcome:
        try:
            self._search()
        except OutOfTime:
            self.note_out_of_time()
        except NoChoice:
            self._close()
        return self.so_far()

    @property
    def target_ns(self) -> float:
        """The cost that a useful choice must undercut."""
        return min(self.incumbent.cost_ns, self.budget.cutoff_ns)

    def _search(self) -> None:
        incumbent, deadline = self.incumbent, self.deadline
        pairs = pairs_of(self.graph)
        incumbent.raise_bound(pairs.least_ns(), "start")
        prices: FloatArray | None = None
        entries_before = math.inf
        listener = Listener(
            lambda places: self._offer(pairs, places),
            lambda bound_ns: self._raise_bound(bound_ns, "messages"),
            self._is_enough,
            lambda: self.target_ns,
        )
        for number in range(_ROUNDS):
            deadline.check()
            reduce(pairs, deadline, self.target_ns)
            if not pairs.nodes:
                self._conclude(pairs, {}, "reductions")
                return
            dual = Dual(pairs)
            climb(dual, listener, deadline, prices)
            prices = dual.prices
            if incumbent.is_closed() or self.is_beaten():
                return
            if number == _ROUNDS - 1 or pairs.entries() > _WORTH_A_ROUND * entries_before:
                break
            entries_before = pairs.entries()
            dual.fix(self.target_ns)
        places = cheapest(dual, self.target_ns, deadline)
        if places is None:
            self._solve(dual)
        else:
            self._conclude(pairs, places, "knapsack")

    def _offer(self, pairs: Pairs, places: dict[int, int]) -> None:
        self.incumbent.offer(pairs.expanded(places), "messages")

    def _conclude(self, pairs: Pairs, places: dict[int, int], stage: str) -> None:
        """Offer a cheapest choice of the remaining pairs, by places."""
        cost = self.incumbent.offer(pairs.expanded(places), stage)
        limit = self.graph.memory_limit_bytes
        if limit is not None and cost.memory_bytes > limit:
            if cost.memory_bytes > limit * (1 + 2 * pairs.memory_error):
                raise NoChoice
            self.notes.append("gap left open: a choice lies within rounding of the limit")
        self._raise_bound(cost.cost_ns, stage)

    def _solve(self, dual: Dual) -> None:
        entries = dual.pairs.entries()
        if entries > _MOST_PAIRS:
            self.notes.append(f"gap left open: {entries:,} pairs of states are too many for CP-SAT")
            return
        # OR-tools load pandas, which takes as long as all of the planner: import only if needed
        from meshwright_solver.search.integer.cp_sat import Minimiser
        from meshwright_solver.search.integer.encoding import Encoding

        minimiser = Minimiser(
            Encoding(dual, self.target_ns),
            self.incumbent,
            self.deadline,
            self._raise_bound,
            self._is_enough,
        )
        minimiser.run(self.target_ns, self._hint(dual.pairs))
        if minimiser.is_spent:
            self.notes.append("gap left open: CP-SAT reached its limit of work")
        self.is_beaten()

    def _hint(self, pairs: Pairs) -> dict[int, int]:
        """The places of the incumbent's states that remain."""
        if self.incumbent.choice is None:
            return {}
        hint = {}
        for node, states in pairs.states.items():
            place = int(np.searchsorted(states, self.incumbent.choice[node]))
            if place < len(states) and states[place] == self.incumbent.choice[node]:
                hint[node] = place
        return hint

    def _raise_bound(self, bound_ns: float, stage: str) -> None:
        """Raise the bound, at most to the target: dearer choices may be missing in the pairs."""
        self.incumbent.raise_bound(min(bound_ns, self.target_ns), stage)

    def _is_enough(self) -> bool:
        return self.incumbent.is_closed() or self.reaches_cutoff()

    def _close(self) -> None:
        """Conclude that no choice costs less than the target."""
        if self.target_ns < math.inf:
            self._raise_bound(math.inf, "reductions")
            self.is_beaten()
            return
        if self.graph.memory_limit_bytes is None:
            self.prove_infeasible("every choice takes a forbidden state or pair")
            return
        least = exact(
            memory_as_cost(self.graph),
            SearchBudget(seconds=self.deadline.left_s(), stop=self.budget.stop),
        )
        if least.status == "infeasible":
            self.prove_infeasible("every choice takes a forbidden state or pair")
            return
        self.prove_infeasible("every choice takes more memory than the limit")
        if least.status == "optimal" and least.choice is not None and self.graph.lifetimes is None:
            self.minimum_memory_bytes = evaluate_choice(self.graph, least.choice).memory_bytes
