"""Exact search over a cost graph by elimination.

    1. least cost without the limit     a lower bound; the optimum where it fits
    2. least memory alone               a choice within the limit, or proof that there is none
    3. the best price of memory         a better bound, better choices: memory_price.py
    4. labels along the eliminations    the optimum: partial_choice_search.py

Each is an elimination with other weights over one program of shared tables (elimination_order.py,
evaluated_program.py). Ends when the gap is within the tolerance or the time is over.
"""

from __future__ import annotations

import math

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.deadline import Deadline, OutOfTime
from meshwright_solver.search.core.cost_graph import CostGraph
from meshwright_solver.search.core.incumbent import Report
from meshwright_solver.search.core.interned_tables import CostWeights
from meshwright_solver.search.core.lifetimes import always_live
from meshwright_solver.search.core.memory_bracket import PricedChoice, PricedStates
from meshwright_solver.search.core.outcome import Outcome, SearchBudget, TableTooLarge
from meshwright_solver.search.core.search_state import SearchState
from meshwright_solver.search.elimination import memory_price
from meshwright_solver.search.elimination.elimination_order import (
    EliminationProgram,
    elimination_program,
)
from meshwright_solver.search.elimination.evaluated_program import Solution, solve
from meshwright_solver.search.elimination.partial_choice_search import LabelSearch

_SOLUTIONS_HELD = 5


def dynamic_programming(
    graph: CostGraph,
    budget: SearchBudget,
    report: Report | None = None,
    start: IntArray | None = None,
) -> Outcome:
    """Deterministic unless time runs out. Raises TableTooLarge before it allocates any table.

    Raises LifetimesMatter where lifetimes make a difference.
    """
    always = always_live(graph, "elimination")
    return DynamicProgramming(always, budget, report, start).outcome(budget)


class DynamicProgramming(SearchState):
    """The search in two steps; a caller can omit the second if the first shows no use for it."""

    def __init__(
        self,
        graph: CostGraph,
        budget: SearchBudget,
        report: Report | None = None,
        start: IntArray | None = None,
    ) -> None:
        """budget: of the first step. Raises TableTooLarge."""
        super().__init__(graph, budget, report, start)
        self._program: EliminationProgram | None = None
        self._cheapest: Solution | None = None
        self._over: PricedStates | None = None
        try:
            self._begin()
        except OutOfTime:
            self.note_out_of_time()

    @property
    def floor_ns(self) -> float:
        """The least cost without the limit, or a lower bound of it."""
        return self.incumbent.lower_bound_ns

    def outcome(self, budget: SearchBudget) -> Outcome:
        """The outcome of both steps. budget: of the second step."""
        if self._cheapest is not None and self._program is not None:
            self.budget = budget
            self.deadline = Deadline.after(budget.seconds, budget.stop)
            try:
                self._close(self._program, self._cheapest)
            except OutOfTime:
                self.note_out_of_time()
        return self.so_far()

    def _begin(self) -> None:
        self.incumbent.raise_bound(_sum_of_least(self.graph), "start")
        self.deadline.check()
        program = elimination_program(
            self.graph, self.budget.max_table_entries, self.budget.max_held_entries
        )
        self._check_held(program)
        cheapest = solve(program, CostWeights(1.0, 0.0), self.deadline)
        if cheapest.value == math.inf:
            self.prove_infeasible("every choice takes a forbidden state or pair")
            return
        choice = cheapest.choice()
        over = self.incumbent.offer(choice, "cost")
        limit = self.graph.memory_limit_bytes
        if limit is None or over.memory_bytes <= limit:
            self.incumbent.raise_bound(self.incumbent.cost_ns, "cost")
            return
        self.incumbent.raise_bound(cheapest.value, "cost")
        self._program, self._cheapest = program, cheapest
        self._over = PricedChoice(choice, over)

    def _close(self, program: EliminationProgram, cheapest: Solution) -> None:
        """Search within the limit, which the cheapest choice exceeds."""
        incumbent, deadline = self.incumbent, self.deadline
        assert self._over is not None
        if incumbent.is_closed() or self.is_beaten():
            return
        leanest = solve(program, CostWeights(0.0, 1.0), deadline)
        choice = leanest.choice()
        within = PricedChoice(choice, incumbent.offer(choice, "memory"))
        self.minimum_memory_bytes = within.cost.memory_bytes
        if incumbent.choice is None:
            self.prove_infeasible("every choice takes more memory than the limit")
            return

        def at(ns_per_byte: float) -> Solution:
            return solve(program, CostWeights(1.0, ns_per_byte), deadline, cheapest)

        peak = memory_price.peak(at, self._over, within, incumbent)
        if peak is None or incumbent.is_closed() or self.is_beaten():
            return
        if _SOLUTIONS_HELD * program.entries() > self.budget.max_held_entries:
            self.notes.append("gap left open: the last stage would exceed max_held_entries")
            return
        best_ns_per_byte, best = peak
        priced = [best, *memory_price.beside(at, best_ns_per_byte, incumbent)]
        search = LabelSearch(
            program, [cheapest, leanest, *priced], incumbent, deadline, self.budget.max_labels
        )
        search.run()
        if search.is_spent:
            self.notes.append("gap left open: the last stage reached max_labels")

    def _check_held(self, program: EliminationProgram) -> None:
        solutions = 1 if self.graph.memory_limit_bytes is None else 2
        held = solutions * program.entries()
        if held > self.budget.max_held_entries:
            raise TableTooLarge("the whole graph", held, self.budget.max_held_entries)


def _sum_of_least(graph: CostGraph) -> float:
    """A lower bound without a search. Repeated blocks share their arrays; each is read once."""
    sums = graph.cost_sums
    least = [float(table.min()) * len(nodes) for table, nodes in sums.nodes]
    least += [float(table.min()) * len(tails) for table, tails, _ in sums.edges]
    return math.fsum(least)
