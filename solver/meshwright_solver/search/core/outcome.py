"""The budget and the outcome of a search over a cost graph.

Every search has one signature: a cost graph, a budget, a progress callback, and a start choice
where one is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.deadline import Stop, never
from meshwright_solver.search.core.cost_graph import CostGraph, CostGraphError
from meshwright_solver.search.core.incumbent import Incumbent, Report

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
Proof = Literal["optimum", "bound", "nothing"]  # of an engine, where its budget suffices
MOST_LABELS = 1_000_000  # chosen: some seconds


class TableTooLarge(CostGraphError):
    """Elimination needs more table entries than the budget allows."""

    def __init__(self, what: str, entries: int, max_entries: int) -> None:
        super().__init__(
            f"{what} needs {entries:,} table entries, the budget allows {max_entries:,}. Use fewer "
            "states per node, shared arrays in repeated blocks or a larger budget"
        )
        self.entries = entries
        self.max_entries = max_entries


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """The limits of a search. It ends after `seconds` (None: no limit), within the relative
    `tolerance` of the optimum, or once `stop` returns True.

    No table has more than `max_table_entries` entries, and all tables held at once have at most
    `max_held_entries`, 8 bytes each. The last stage expands at most `max_labels` partial choices.
    The search also ends once its bound reaches `cutoff_ns`.
    """

    seconds: float | None = None
    max_table_entries: int = 60_000_000
    tolerance: float = 0.0
    max_held_entries: int = 400_000_000
    max_labels: int = MOST_LABELS
    cutoff_ns: float = math.inf
    stop: Stop = never
    over_bytes: Callable[[IntArray], float] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a search, and its proof.

    optimal     the cost is within the tolerance of lower_bound_ns
    feasible    a choice within the limit, the gap still open
    infeasible  proved: no choice is within the limit, or every choice is forbidden
    unknown     the budget ended before a choice within the limit was found

    `cost_ns` and `memory_bytes` are evaluate_choice of `choice`, inf and NaN without one.
    `minimum_memory_bytes` is the least memory of any choice, None where it was not needed or there
    is no choice at all.
    """

    status: Status
    choice: IntArray | None
    cost_ns: float
    memory_bytes: float
    lower_bound_ns: float
    minimum_memory_bytes: float | None
    notes: tuple[str, ...] = ()


def outcome_of(
    incumbent: Incumbent,
    infeasible: bool,
    minimum_memory_bytes: float | None,
    notes: tuple[str, ...],
) -> Outcome:
    """The outcome of a search that has ended. infeasible: proved to be so."""
    status: Status = "unknown"
    if infeasible:
        status = "infeasible"
    elif incumbent.choice is not None:
        status = "optimal" if incumbent.is_closed() else "feasible"
    return Outcome(
        status=status,
        choice=incumbent.choice,
        cost_ns=incumbent.cost_ns,
        memory_bytes=incumbent.memory_bytes,
        lower_bound_ns=min(incumbent.lower_bound_ns, incumbent.cost_ns),
        minimum_memory_bytes=minimum_memory_bytes,
        notes=notes,
    )


class ChoiceSearch(Protocol):
    """A search over cost graphs. start: the first choice, within the limit or not."""

    def __call__(
        self,
        graph: CostGraph,
        budget: SearchBudget,
        report: Report | None = None,
        start: IntArray | None = None,
    ) -> Outcome: ...
