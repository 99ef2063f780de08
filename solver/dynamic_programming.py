"""Exact search over a cost graph by elimination.

    1. least cost without the limit     a lower bound; the optimum where it fits
    2. least memory alone               a choice within the limit, or proof that there is none
    3. the best price of memory         a better bound, better choices: elimination/multiplier.py
    4. labels along the eliminations    the optimum: elimination/label_search.py

Each is an elimination with other weights over one program of shared tables (elimination/order.py,
elimination/solution.py). Ends when the gap is within the tolerance or the time is over.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from solver.cost_graph import CostGraph, Edge, IntArray
from solver.elimination import multiplier
from solver.elimination.deadline import Deadline, OutOfTime
from solver.elimination.eliminator import TableTooLarge
from solver.elimination.incumbent import Incumbent, Progress, Report
from solver.elimination.label_search import LabelSearch
from solver.elimination.order import Program, elimination_program
from solver.elimination.solution import Weights, solve

_SOLUTIONS_HELD = 5

__all__ = ["Budget", "Outcome", "Progress", "Report", "TableTooLarge", "dynamic_programming"]


@dataclass(frozen=True, slots=True)
class Budget:
    """When to stop: after `seconds` (None: never), or within `tolerance` of the optimum, relative.

    No table has more than `max_table_entries`, all that are held at once `max_held_entries`, 8
    bytes each. The last stage looks at no more than `max_labels` partial choices (chosen: some
    seconds). A bound that reaches `cutoff_ns` ends the search: what costs more is of no use.
    """

    seconds: float | None = None
    max_table_entries: int = 60_000_000
    tolerance: float = 0.0
    max_held_entries: int = 400_000_000
    max_labels: int = 1_000_000
    cutoff_ns: float = math.inf


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found and what was proved.

    optimal     the cost is within the tolerance of lower_bound_ns
    feasible    a choice within the limit, the gap still open
    infeasible  proved: no choice is within the limit, or every choice is forbidden
    unknown     the budget ended before a choice within the limit was found

    `cost_ns` and `memory_bytes` are evaluate_choice of `choice`, inf and NaN without one.
    `minimum_memory_bytes` is the least memory of any choice, None where it was not needed or there
    is no choice at all.
    """

    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    choice: IntArray | None
    cost_ns: float
    memory_bytes: float
    lower_bound_ns: float
    minimum_memory_bytes: float | None
    notes: tuple[str, ...] = ()


def dynamic_programming(graph: CostGraph, budget: Budget, report: Report | None = None) -> Outcome:
    """Deterministic where time does not cut it. Raises TableTooLarge, before any table is made."""
    return _Run(graph, budget, report).outcome()


class _Run:
    """One run: facts collected stage by stage, so that a cut leaves an honest outcome."""

    def __init__(self, graph: CostGraph, budget: Budget, report: Report | None) -> None:
        self.graph = graph
        self.budget = budget
        self.deadline = Deadline.after(budget.seconds)
        self.incumbent = Incumbent(graph, budget.tolerance, report)
        self.infeasible = False
        self.minimum_memory_bytes: float | None = None
        self.notes: list[str] = []

    def outcome(self) -> Outcome:
        try:
            self.incumbent.raise_bound(_sum_of_least(self.graph), "start")
            self.deadline.check()
            program = elimination_program(self.graph, self.budget.max_table_entries)
            self._check_held(program)
            self._search(program)
        except OutOfTime:
            self.notes.append(f"stopped after {self.budget.seconds} s")
        found = self.incumbent
        return Outcome(
            status=self._status(),
            choice=found.choice,
            cost_ns=found.cost_ns,
            memory_bytes=found.memory_bytes,
            lower_bound_ns=min(found.lower_bound_ns, found.cost_ns),
            minimum_memory_bytes=self.minimum_memory_bytes,
            notes=tuple(self.notes),
        )

    def _status(self) -> Literal["optimal", "feasible", "infeasible", "unknown"]:
        if self.infeasible:
            return "infeasible"
        if self.incumbent.choice is None:
            return "unknown"
        return "optimal" if self.incumbent.is_closed() else "feasible"

    def _search(self, program: Program) -> None:
        incumbent, deadline = self.incumbent, self.deadline
        cheapest = solve(program, Weights(1.0, 0.0), deadline)
        if cheapest.value == math.inf:
            self._prove_infeasible("every choice takes a forbidden state or pair")
            return
        over = incumbent.offer(cheapest.choice(), "cost")
        if incumbent.choice is not None:
            incumbent.raise_bound(incumbent.cost_ns, "cost")
            return
        incumbent.raise_bound(cheapest.value, "cost")
        if self._is_beaten():
            return
        leanest = solve(program, Weights(0.0, 1.0), deadline)
        within = incumbent.offer(leanest.choice(), "memory")
        self.minimum_memory_bytes = within.memory_bytes
        if incumbent.choice is None:
            self._prove_infeasible("every choice takes more memory than the limit")
            return
        peak = multiplier.peak(cheapest, over, within, incumbent, deadline)
        if peak is None or incumbent.is_closed() or self._is_beaten():
            return
        if _SOLUTIONS_HELD * program.entries() > self.budget.max_held_entries:
            self.notes.append("gap left open: the last stage would exceed max_held_entries")
            return
        priced = [peak, *multiplier.beside(peak, cheapest, incumbent, deadline)]
        search = LabelSearch(
            program, [cheapest, leanest, *priced], incumbent, deadline, self.budget.max_labels
        )
        search.run()
        if search.is_spent:
            self.notes.append("gap left open: the last stage reached max_labels")

    def _is_beaten(self) -> bool:
        if self.incumbent.lower_bound_ns < self.budget.cutoff_ns:
            return False
        self.notes.append("nothing here costs less than cutoff_ns")
        return True

    def _check_held(self, program: Program) -> None:
        solutions = 1 if self.graph.memory_limit_bytes is None else 2
        held = solutions * program.entries()
        if held > self.budget.max_held_entries:
            raise TableTooLarge("the whole graph", held, self.budget.max_held_entries)

    def _prove_infeasible(self, note: str) -> None:
        self.infeasible = True
        self.notes.append(note)
        self.incumbent.raise_bound(math.inf, "infeasible")


def _sum_of_least(graph: CostGraph) -> float:
    """A bound without any search. Repeated blocks share their arrays: each is read once."""
    arrays = [node.cost for node in graph.nodes]
    arrays += [edge.cost for edge in graph.edges if isinstance(edge, Edge)]
    times = Counter(id(array) for array in arrays)
    by_id = {id(array): array for array in arrays}
    return math.fsum(float(by_id[key].min()) * count for key, count in times.items())
