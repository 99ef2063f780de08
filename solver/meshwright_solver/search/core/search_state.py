"""The state that all searches over a cost graph share: budget, deadline, incumbent and proofs.

Each stage adds its facts, so that a search that runs out of time still has a valid outcome.
"""

from __future__ import annotations

import math

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.search.core.cost_graph import CostGraph
from meshwright_solver.search.core.incumbent import Incumbent, Report
from meshwright_solver.search.core.outcome import Outcome, SearchBudget, outcome_of


class SearchState:
    def __init__(
        self, graph: CostGraph, budget: SearchBudget, report: Report | None, start: IntArray | None
    ) -> None:
        self.graph = graph
        self.budget = budget
        self.deadline = Deadline.after(budget.seconds, budget.stop)
        self.incumbent = Incumbent(graph, budget.tolerance, report)
        if start is not None:
            self.incumbent.offer(start, "start")
        self.infeasible = False
        self.minimum_memory_bytes: float | None = None
        self.notes: list[str] = []

    def so_far(self) -> Outcome:
        """The outcome so far."""
        return outcome_of(
            self.incumbent, self.infeasible, self.minimum_memory_bytes, tuple(self.notes)
        )

    def note_out_of_time(self) -> None:
        if self.budget.stop():
            self.notes.append("stopped on request")
        else:
            self.notes.append(f"stopped after {self.budget.seconds} s")

    def prove_infeasible(self, note: str) -> None:
        self.notes.append(note)
        self.infeasible = True
        self.incumbent.raise_bound(math.inf, "infeasible")

    def reaches_cutoff(self) -> bool:
        """Whether the bound proves that no choice costs less than `cutoff_ns`."""
        return self.incumbent.lower_bound_ns >= self.budget.cutoff_ns

    def is_beaten(self) -> bool:
        """Whether the cutoff is reached; if so, a note says it."""
        if self.reaches_cutoff():
            self.notes.append("nothing here costs less than cutoff_ns")
            return True
        return False
