from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from meshwright_solver.search.core.cost_graph import (
    FORBIDDEN,
    CostEdge,
    CostGraph,
    CostNode,
    evaluate_choice,
)
from meshwright_solver.search.core.outcome import Outcome, SearchBudget
from meshwright_solver.search.lagrangian.lagrangian_search import lagrangian_search
from tests.solver.cost_graphs import brute_force, random_graph
from tests.solver.timed_graphs import random_timed_graph

CLOSE = 1e-9


def check_against_brute_force(graph: CostGraph, outcome: Outcome) -> float:
    """The outcome is honest; how far it is from the optimum, relative."""
    truth = brute_force(graph)
    slack = CLOSE * max(abs(truth.cost_ns), 1.0) if math.isfinite(truth.cost_ns) else 0.0
    assert outcome.lower_bound_ns <= truth.cost_ns + slack
    if outcome.status == "infeasible":
        assert truth.cost_ns == FORBIDDEN
        return 0.0
    if outcome.choice is None:
        return 0.0 if truth.cost_ns == FORBIDDEN else 1.0
    found = evaluate_choice(graph, outcome.choice)
    assert (found.cost_ns, found.memory_bytes) == (outcome.cost_ns, outcome.memory_bytes)
    assert graph.memory_limit_bytes is None or found.memory_bytes <= graph.memory_limit_bytes
    assert found.cost_ns >= truth.cost_ns - slack
    if outcome.status == "optimal":
        assert found.cost_ns <= truth.cost_ns + slack
    return (found.cost_ns - truth.cost_ns) / max(abs(truth.cost_ns), 1.0)


@pytest.mark.parametrize("batch", range(4))
def test_is_honest_and_near_brute_force(batch: int) -> None:
    seeds = range(60 * batch, 60 * batch + 60)
    gaps = []
    for seed in seeds:
        graph = random_timed_graph(seed) if seed % 3 else random_graph(seed)
        gaps.append(check_against_brute_force(graph, lagrangian_search(graph, SearchBudget())))
    # six nodes at most: the search is no proof, but it finds nearly all of the optima
    assert sum(gap > CLOSE for gap in gaps) <= 1


def test_a_limit_that_holds_at_one_time_only() -> None:
    # two nodes of 1 byte that never live together: the cheap states fit under a limit of 1
    node = CostNode("n", np.array([0.0, 5.0]), np.array([1.0, 0.0]))
    apart = CostGraph((node, node), (), 1.0, lifetimes=np.array([[0, 1], [1, 2]]))
    together = replace(apart, lifetimes=np.array([[0, 2], [1, 2]]))
    assert lagrangian_search(apart, SearchBudget()).cost_ns == 0.0
    assert lagrangian_search(together, SearchBudget()).cost_ns == 5.0


def test_a_graph_without_nodes_costs_nothing() -> None:
    outcome = lagrangian_search(CostGraph((), ()), SearchBudget())
    assert (outcome.status, outcome.cost_ns) == ("optimal", 0.0)


def test_forbidden_everywhere_is_infeasible() -> None:
    nodes = (CostNode("a", np.zeros(2)), CostNode("b", np.zeros(2)))
    graph = CostGraph(nodes, (CostEdge(0, 1, np.full((2, 2), FORBIDDEN)),))
    assert lagrangian_search(graph, SearchBudget()).status == "infeasible"


def test_more_memory_than_the_limit_whatever_is_chosen_is_infeasible() -> None:
    graph = CostGraph((CostNode("a", np.zeros(2), np.array([3.0, 2.0])),), (), 1.0)
    assert lagrangian_search(graph, SearchBudget()).status == "infeasible"


def grid(width: int, seed: int, limit_share: float) -> CostGraph:
    """width x width nodes of six states, each joined to two before it: no tables would hold it."""
    random = np.random.default_rng(seed)
    nodes = []
    for number in range(width * width):
        memory = np.floor(random.random(6) * 100)
        nodes.append(CostNode(f"n{number}", np.floor(random.random(6) * 1000), memory))
    edges = []
    for number in range(width * width):
        for other in (number - 1 if number % width else -1, number - width):
            if other >= 0:
                edges.append(CostEdge(other, number, np.floor(random.random((6, 6)) * 500)))
    least = sum(float(node.memory.min()) for node in nodes if node.memory is not None)
    return CostGraph(tuple(nodes), tuple(edges), least + limit_share * 50 * len(nodes))


def test_a_grid_is_closed_to_two_percent() -> None:
    outcome = lagrangian_search(grid(20, 0, 0.3), SearchBudget(tolerance=0.02))
    assert outcome.status == "optimal"
    assert outcome.cost_ns - outcome.lower_bound_ns <= 0.02 * outcome.cost_ns


def test_equal_input_gives_the_equal_choice_whatever_the_cores() -> None:
    graph = grid(8, 1, 0.2)
    first = lagrangian_search(graph, SearchBudget(), cores=1)
    second = lagrangian_search(graph, SearchBudget(), cores=2)
    assert first.choice is not None
    assert second.choice is not None
    assert first.choice.tolist() == second.choice.tolist()
    assert first.lower_bound_ns == second.lower_bound_ns


def test_no_time_at_all_leaves_an_honest_outcome() -> None:
    graph = grid(8, 2, 0.2)
    outcome = lagrangian_search(graph, SearchBudget(seconds=0.0))
    assert outcome.choice is not None
    assert outcome.cost_ns == evaluate_choice(graph, outcome.choice).cost_ns
    assert outcome.status == "feasible"
    assert any("stopped after" in note for note in outcome.notes)


def test_a_start_is_never_lost() -> None:
    graph = grid(6, 3, 0.2)
    best = lagrangian_search(graph, SearchBudget())
    assert best.choice is not None
    again = lagrangian_search(graph, SearchBudget(seconds=0.0), start=best.choice)
    assert again.cost_ns == best.cost_ns
