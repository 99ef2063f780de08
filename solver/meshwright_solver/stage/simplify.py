"""The simplest of the plans that cost about as much as the best.

Exact optima can be irregular: a re-layout that saves microseconds, or one layer in thirty that is
sharded differently. A choice is counted by

    re-layouts        edges between ops on which an activation or its gradient is redistributed
    odd repeats       ops and parameters of repeated layers that choose otherwise than most of them

Let cost* be the best cost, f* its count and t the tolerance. The minimum of cost + price * count at
the price t * cost* / f* costs at most cost* (1 + t), because the best itself costs no more. A
higher price removes more where the tolerance allows it, and is tried first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.shared_sequence import Repeated, parts_of
from meshwright_solver.folding.mesh_outcome import MeshOutcome
from meshwright_solver.folding.unfold import Unfolding
from meshwright_solver.search.core.cost_graph import (
    CostEdge,
    CostGraph,
    CostNode,
    Projection,
    RepeatedEdges,
    evaluate_choice,
)
from meshwright_solver.search.core.outcome import SearchBudget, TableTooLarge
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming

# chosen: each costs a search
PRICES = (4.0, 1.0)
# chosen: of the tolerance, how exactly the priced graph is solved
EXACTNESS = 0.1


@dataclass(frozen=True, slots=True)
class Count:
    """The irregularities of a choice."""

    relayouts: int
    odd_repeats: int

    @property
    def total(self) -> int:
        return self.relayouts + self.odd_repeats


@dataclass(frozen=True, slots=True)
class Simpler:
    """A simpler choice, its cost, and the counts of the choice that it replaces and of itself."""

    choice: IntArray
    cost_ns: float
    memory_bytes: float
    before: Count
    after: Count

    @property
    def gained(self) -> str:
        """The simplification in words; counts that do not change are omitted."""
        before, after = self.before, self.after
        return ", ".join(
            f"{now} {one}{'' if now == 1 else 's'}{which} instead of {then}"
            for now, then, one, which in (
                (after.relayouts, before.relayouts, "re-layout", ""),
                (
                    after.odd_repeats,
                    before.odd_repeats,
                    "op",
                    " of repeated layers unlike most",
                ),
            )
            if now != then
        )


def simpler(
    unfolding: Unfolding, choice: IntArray, tolerance: float, budget: SearchBudget
) -> Simpler | None:
    """A simpler choice that costs at most `tolerance` more, relative; None where none is found."""
    counter = _Counter(unfolding)
    best_ns = evaluate_choice(unfolding.graph, choice).cost_ns
    before = counter.count(choice)
    priced_budget = replace(budget, tolerance=EXACTNESS * tolerance, cutoff_ns=inf)
    for price in PRICES if before.total and tolerance > 0 else ():
        priced = counter.priced(choice, price * tolerance * best_ns / before.total)
        try:
            simple = dynamic_programming(priced, priced_budget, start=choice).choice
        except TableTooLarge:
            return None
        if simple is None:
            return None
        real, after = evaluate_choice(unfolding.graph, simple), counter.count(simple)
        if after.total >= before.total:
            return None
        if real.cost_ns <= best_ns * (1 + tolerance):
            return Simpler(simple, real.cost_ns, real.memory_bytes, before, after)
    return None


class Simplified(NamedTuple):
    """An outcome with a simpler choice, and the simplification in words."""

    outcome: MeshOutcome
    gained: str


def simplified(best: MeshOutcome, tolerance: float, budget: SearchBudget) -> Simplified | None:
    """The simplest choice on the mesh of the best that costs at most `tolerance` more, relative;
    None where none is found."""
    choice = best.outcome.choice
    if choice is None or best.unfolding is None:
        return None
    simple = simpler(best.unfolding, choice, tolerance, budget)
    if simple is None:
        return None
    extra_ns = simple.cost_ns - best.outcome.cost_ns
    outcome = replace(
        best.outcome,
        choice=simple.choice,
        cost_ns=simple.cost_ns,
        memory_bytes=simple.memory_bytes,
    )
    return Simplified(
        replace(best, outcome=outcome, simplicity_ns=max(0.0, extra_ns)), simple.gained
    )


class _Counter:
    def __init__(self, unfolding: Unfolding) -> None:
        self.graph = unfolding.graph
        self.moving = unfolding.activation_tables()
        self.repeats = unfolding.repeats()

    def count(self, choice: IntArray) -> Count:
        relayouts = sum(
            int(np.count_nonzero(table[choice[tails], choice[heads]] > 0))
            for table, tails, heads in self.graph.cost_sums.edges
            if id(table) in self.moving
        )
        odd = sum(len(nodes) - int(np.bincount(choice[nodes]).max()) for nodes in self.repeats)
        return Count(relayouts, odd)

    def priced(self, choice: IntArray, price_ns: float) -> CostGraph:
        """The graph in which every unit of the count costs `price_ns` more."""
        return replace(
            self.graph,
            nodes=self._priced_nodes(choice, price_ns),
            edges=self._priced_edges(price_ns),
        )

    def _priced_nodes(self, choice: IntArray, price_ns: float) -> Sequence[CostNode]:
        """All states of repeated nodes cost more, except the most frequent one."""
        known, of_known = parts_of(self.graph.nodes)
        parts, numbers = list(known), of_known.copy()
        shared: dict[tuple[int, int], FloatArray] = {}
        for repeated in self.repeats:
            usual = int(np.bincount(choice[repeated]).argmax())
            for number in np.unique(of_known[repeated]).tolist():
                table = known[number].cost
                key = (id(table), usual)
                if key not in shared:
                    shared[key] = table + price_ns * (np.arange(table.size) != usual)
                numbers[repeated[of_known[repeated] == number]] = len(parts)
                parts.append(replace(known[number], cost=shared[key]))
        return Repeated(parts, numbers)

    def _priced_edges(self, price_ns: float) -> Sequence[CostEdge | Projection]:
        """Every redistribution of an activation costs more."""
        tables = {key: table + price_ns * (table > 0) for key, table in self.moving.items()}
        known, numbers = parts_of(self.graph.edges)
        parts = [
            replace(edge, cost=tables[id(edge.cost)])
            if isinstance(edge, CostEdge) and id(edge.cost) in tables
            else edge
            for edge in known
        ]
        return RepeatedEdges(parts, numbers, *self.graph.ends)
