from __future__ import annotations

import time
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from meshwright.schema.cost_graph import CostGraphEngine
from meshwright_solver.search.core.cost_graph import CostEdge, CostGraph, CostNode, evaluate_choice
from meshwright_solver.search.core.incumbent import SearchStep
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.documents.engines import (
    GRAPH_ENGINES,
    Engine,
    GraphEngine,
    compile_engine,
    search_with,
)

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "explanation" / "search.md").read_text()


def deaf(_engine: Engine, _step: SearchStep) -> None:
    """A report to nobody."""


def entangled(nodes: int, states: int, seed: int) -> CostGraph:
    """Every node is joined to eight others: neither elimination nor exact closes it."""
    random = np.random.default_rng(seed)
    parts = tuple(
        CostNode(str(number), np.floor(random.random(states) * 1000)) for number in range(nodes)
    )
    edges = tuple(
        CostEdge(number, int(other), np.floor(random.random((states, states)) * 1000))
        for number in range(nodes)
        for other in random.choice(nodes, 4, replace=False)
        if other != number
    )
    return CostGraph(parts, edges)


def test_auto_is_over_in_time_and_uses_all_of_it() -> None:
    graph = entangled(150, 5, 0)
    compile_engine("lagrangian", graph)
    began = time.monotonic()
    outcome, engines = search_with("auto", graph, SearchBudget(seconds=4.0), deaf)
    took = time.monotonic() - began
    assert engines[-2:] == ("exact", "lagrangian")
    assert outcome.choice is not None
    assert evaluate_choice(graph, outcome.choice).cost_ns == outcome.cost_ns
    assert outcome.lower_bound_ns < outcome.cost_ns
    assert 3.0 < took < 20.0


def test_bounds_of_whole_costs_are_whole() -> None:
    graph = entangled(60, 4, 1)
    outcome, _ = search_with("lagrangian", graph, SearchBudget(seconds=2.0), deaf)
    assert outcome.lower_bound_ns == round(outcome.lower_bound_ns)


@pytest.mark.parametrize("engine", ["auto", "lagrangian", "exact", "elimination"])
def test_bounds_of_other_costs_are_not_rounded(engine: Engine) -> None:
    # 0.25 + 0.5 is the least, and no whole number
    nodes = (CostNode("a", np.array([0.25, 3.0])), CostNode("b", np.array([0.5, 4.0])))
    outcome, _ = search_with(engine, CostGraph(nodes, ()), SearchBudget(), deaf)
    assert (outcome.status, outcome.cost_ns, outcome.lower_bound_ns) == ("optimal", 0.75, 0.75)


def test_a_request_can_name_every_engine_of_cost_graphs_and_auto() -> None:
    assert {*get_args(CostGraphEngine)} == {"auto", *GRAPH_ENGINES}


@pytest.mark.parametrize("engine", GRAPH_ENGINES.values(), ids=lambda engine: engine.name)
def test_the_page_has_a_row_for_every_engine_of_cost_graphs(engine: GraphEngine) -> None:
    assert f"| `{engine.name}` | {engine.proves} | {engine.needs} |" in PAGE
