"""The registry of engines for cost graphs of files, and the portfolio of `auto`.

It is separate from the registry of planning requests (`stage/engines/registry.py`): a file has no
meshes and no ops, its engines have other public names, and this room lies below `stage`.

`auto` begins with elimination where lifetimes have no effect, the nodes are not too many and the
tables fit; elsewhere it begins with lagrangian. On a small graph the first engine gets a tenth of
the time, exact gets half of the rest, and lagrangian the remainder. Each engine begins with the
best choice so far. exact proves the optimum of contest instance G in 7 s, where lagrangian leaves
a gap.

Where all costs are whole numbers, so is the least cost: bounds are rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from meshwright.schema.cost_graph import CostGraphEngine
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.search.core.cost_graph import FORBIDDEN, CostEdge, CostGraph, CostNode
from meshwright_solver.search.core.incumbent import Report, SearchStep
from meshwright_solver.search.core.lifetimes import without_lifetimes
from meshwright_solver.search.core.outcome import (
    ChoiceSearch,
    Outcome,
    Proof,
    SearchBudget,
    Status,
    TableTooLarge,
)
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.search.integer.integer_program import exact
from meshwright_solver.search.lagrangian.lagrangian_search import lagrangian_search
from meshwright_solver.search.message_passing.message_search import message_search

Engine = Literal["elimination", "message_passing", "lagrangian", "exact"]
EngineReport = Callable[[Engine, SearchStep], None]

_SMALL_ENTRIES = 500_000  # chosen: entries of all edges, up to which exact closes gaps
_MOST_ELIMINATED = 10_000  # measured: nodes whose elimination order takes 4 s; 35,000 take 14 s
_FIRST_SHARE = 0.1  # chosen: of the time, before exact; its proofs need a good choice, not the best
_EXACT_SHARE = 0.5  # chosen: of the remaining time
_SAMPLE_GAP = 0.1  # chosen: reached after one round of everything
_SLACK, _RELATIVE_SLACK = 1e-6, 1e-11  # chosen: above the error of a bound that is rounded up
_ROUNDING = 1e-12  # chosen: bounds this close to a cost prove it, as in core/incumbent.py


class SeededSearch(Protocol):
    """A search over cost graphs; seed: of the random numbers that it draws, if it draws any."""

    def __call__(
        self,
        graph: CostGraph,
        budget: SearchBudget,
        report: Report | None,
        start: IntArray | None,
        *,
        seed: int,
    ) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class GraphEngine:
    """An engine as `meshwright solve` names it.

    proves: within a sufficient budget. needs: the condition on the graph, in words. compile: runs
    all compiled functions once; None where compilation is too short to matter.
    """

    name: Engine
    proves: Proof
    needs: str
    search: SeededSearch
    compile: Callable[[], object] | None = None


def _unseeded(search: ChoiceSearch) -> SeededSearch:
    def seeded(
        graph: CostGraph,
        budget: SearchBudget,
        report: Report | None,
        start: IntArray | None,
        *,
        seed: int,
    ) -> Outcome:
        del seed
        return search(graph, budget, report, start)

    return seeded


def _compile_lagrangian() -> Outcome:
    """Compilation takes 15 s in the first process on a machine, 1 s from the cache in others."""
    return lagrangian_search(_sample_graph(), SearchBudget(tolerance=_SAMPLE_GAP))


GRAPH_ENGINES: dict[str, GraphEngine] = {
    engine.name: engine
    for engine in (
        GraphEngine("elimination", "optimum", "no lifetimes", _unseeded(dynamic_programming)),
        GraphEngine("message_passing", "bound", "no lifetimes", _unseeded(message_search)),
        GraphEngine(
            "lagrangian", "bound", "any cost graph", lagrangian_search, _compile_lagrangian
        ),
        GraphEngine("exact", "optimum", "any cost graph", _unseeded(exact)),
    )
}


def compile_engine(engine: CostGraphEngine, graph: CostGraph) -> None:
    """Compile the first engine that searches the graph, before a clock runs."""
    first = _first_of_auto(graph) if engine == "auto" else engine
    compile_functions = GRAPH_ENGINES[first].compile
    if compile_functions is not None:
        compile_functions()


def search_with(
    engine: CostGraphEngine,
    graph: CostGraph,
    budget: SearchBudget,
    report: EngineReport,
    *,
    seed: int = 0,
) -> tuple[Outcome, tuple[Engine, ...]]:
    """The outcome, and the engines that ran, in their order.

    seed: of lagrangian; the others draw no numbers. Raises CostGraphError where the engine cannot
    search this graph, TableTooLarge where its tables are too large.
    """
    portfolio = _Portfolio(graph, budget, report, seed)
    if engine != "auto":
        portfolio.run(engine)
        return portfolio.result()
    is_small = _entries(graph) <= _SMALL_ENTRIES
    share = _FIRST_SHARE if is_small else 1.0
    try:
        portfolio.run(_first_of_auto(graph), share)
    except TableTooLarge:
        portfolio.run("lagrangian", share)
    if is_small and portfolio.is_open():
        portfolio.run("exact", _EXACT_SHARE)
        if budget.seconds is not None and portfolio.is_open():
            portfolio.run("lagrangian")
    return portfolio.result()


def _first_of_auto(graph: CostGraph) -> Engine:
    is_large = len(graph.nodes) > _MOST_ELIMINATED
    return "lagrangian" if is_large or without_lifetimes(graph) is None else "elimination"


class _Portfolio:
    """Engines run in sequence: each begins with the best choice, and the best bound counts."""

    def __init__(
        self, graph: CostGraph, budget: SearchBudget, report: EngineReport, seed: int
    ) -> None:
        self._graph = graph
        self._budget = budget
        self._report = report
        self._seed = seed
        self._is_whole = _is_whole(graph)
        self._deadline = Deadline.after(budget.seconds, budget.stop)
        self._best: Outcome | None = None
        self._engines: tuple[Engine, ...] = ()

    def run(self, engine: Engine, share: float = 1.0) -> None:
        """share: of the remaining time."""
        remaining_s = self._deadline.left_s()
        budget = replace(
            self._budget, seconds=None if remaining_s is None else round(share * remaining_s, 2)
        )
        search = GRAPH_ENGINES[engine].search
        start = None if self._best is None else self._best.choice
        outcome = search(self._graph, budget, self._reporter(engine), start, seed=self._seed)
        if self._is_whole:
            outcome = _rounded_up(outcome)
        self._best = outcome if self._best is None else _combined(self._best, outcome)
        self._engines = (*self._engines, engine)

    def is_open(self) -> bool:
        """Whether the outcome lacks a proof and time remains."""
        assert self._best is not None
        return self._best.status in ("feasible", "unknown") and not self._deadline.is_over()

    def result(self) -> tuple[Outcome, tuple[Engine, ...]]:
        assert self._best is not None
        return self._best, self._engines

    def _reporter(self, engine: Engine) -> Report:
        least = -np.inf if self._best is None else self._best.lower_bound_ns

        def report(step: SearchStep) -> None:
            bound = max(step.lower_bound_ns, least)
            self._report(engine, replace(step, lower_bound_ns=bound))

        return report


def _combined(first: Outcome, second: Outcome) -> Outcome:
    """The second outcome, whose search began with the first's choice, with the better bound."""
    bound = max(first.lower_bound_ns, second.lower_bound_ns)
    status: Status = second.status
    if status == "feasible" and second.cost_ns - bound <= _ROUNDING * abs(second.cost_ns):
        status = "optimal"
    if second.choice is not None:
        bound = min(bound, second.cost_ns)
    notes = () if status == "optimal" else second.notes
    return replace(second, status=status, lower_bound_ns=bound, notes=notes)


def _is_whole(graph: CostGraph) -> bool:
    """Whether the cost of every choice is a whole number, which doubles hold exactly."""
    sums = graph.cost_sums
    tables = [table.ravel() for table, *_ in (*sums.nodes, *sums.edges)]
    costs = np.concatenate([np.empty(0), *tables])
    costs = np.abs(costs[np.isfinite(costs)])
    return bool((costs % 1.0 == 0.0).all()) and float(costs.sum()) < 2**53


def _rounded_up(outcome: Outcome) -> Outcome:
    """The outcome with the least whole number that the bound allows."""
    bound = outcome.lower_bound_ns
    if not math.isfinite(bound):
        return outcome
    bound = float(math.ceil(bound - _SLACK - _RELATIVE_SLACK * abs(bound)))
    bound = max(bound, outcome.lower_bound_ns)
    if outcome.status == "feasible" and bound >= outcome.cost_ns:
        return replace(outcome, status="optimal", lower_bound_ns=outcome.cost_ns, notes=())
    return replace(outcome, lower_bound_ns=min(bound, outcome.cost_ns))


def _entries(graph: CostGraph) -> int:
    tails, heads = graph.ends
    return int((graph.extents[tails] * graph.extents[heads]).sum())


def _sample_graph() -> CostGraph:
    """A grid whose search runs all compiled functions of the Lagrangian engine, and one node that
    another node decides."""
    random = np.random.default_rng(0)
    width = 6

    def drawn(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return np.floor(random.random(shape) * 100)

    count = width * width
    nodes = tuple(CostNode(str(number), drawn(4), drawn(4)) for number in range(count + 1))
    decides = CostEdge(count - 1, count, np.where(np.eye(4) > 0, 0.0, FORBIDDEN))
    edges = tuple(
        CostEdge(other, number, drawn(4, 4))
        for number in range(count)
        for other in (number - 1 if number % width else -1, number - width)
        if other >= 0
    )
    starts = np.arange(count + 1, dtype=np.int64)
    lifetimes: IntArray = np.stack([starts, starts + 8], axis=1)
    return CostGraph(nodes, (*edges, decides), 320.0, lifetimes=lifetimes)
