from __future__ import annotations

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
from meshwright_solver.search.core.incumbent import SearchStep
from meshwright_solver.search.core.outcome import SearchBudget, TableTooLarge
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.search.integer.integer_program import exact
from tests.solver.cost_graphs import brute_force, random_chain
from tests.solver.entangled_graphs import entangled_graph


def two_nodes(limit_bytes: float | None) -> CostGraph:
    """cost(a, b) = [[6, 14], [13, 5]], memory(a, b) = [[1, 3], [8, 10]]"""
    first = CostNode("a", np.array([0.0, 4.0]), np.array([1.0, 8.0]))
    second = CostNode("b", np.array([0.0, 0.0]), np.array([0.0, 2.0]))
    edge = CostEdge(0, 1, np.array([[6.0, 14.0], [9.0, 1.0]]))
    return CostGraph((first, second), (edge,), limit_bytes)


def uneven_ring(nodes: int) -> CostGraph:
    """Neighbours want to differ and nodes are an odd number: one pair cannot, and costs 1."""
    same = np.array([[1.0, 0.0], [0.0, 1.0]])
    free = np.zeros(2)
    edges = tuple(CostEdge(k, (k + 1) % nodes, same) for k in range(nodes))
    pairs = tuple(CostEdge(k, (k + 2) % nodes, same) for k in range(nodes))
    return CostGraph(tuple(CostNode(f"n{k}", free) for k in range(nodes)), edges + pairs)


def clique(nodes: int, states: int) -> CostGraph:
    """Every two nodes share a table of their own."""
    random = np.random.default_rng(nodes)
    edges = tuple(
        CostEdge(a, b, random.integers(0, 50, (states, states)).astype(np.float64))
        for a in range(nodes)
        for b in range(a + 1, nodes)
    )
    return CostGraph(tuple(CostNode(f"n{k}", np.zeros(states)) for k in range(nodes)), edges)


@pytest.mark.parametrize(
    ("limit_bytes", "cost_ns", "choice"),
    [(None, 5.0, [1, 1]), (10.0, 5.0, [1, 1]), (9.99, 6.0, [0, 0]), (1.0, 6.0, [0, 0])],
)
def test_the_cheapest_choice_within_the_limit(
    limit_bytes: float | None, cost_ns: float, choice: list[int]
) -> None:
    outcome = exact(two_nodes(limit_bytes), SearchBudget())
    assert outcome.status == "optimal"
    assert outcome.choice is not None
    assert outcome.choice.tolist() == choice
    assert (outcome.cost_ns, outcome.lower_bound_ns) == (cost_ns, cost_ns)


def test_a_limit_below_the_least_memory_is_infeasible_and_says_what_it_is() -> None:
    outcome = exact(two_nodes(0.5), SearchBudget())
    assert (outcome.status, outcome.choice) == ("infeasible", None)
    assert outcome.minimum_memory_bytes == 1.0
    assert "limit" in outcome.notes[0]


@pytest.mark.parametrize("limit_bytes", [None, 0.0])
def test_forbidden_everywhere_is_infeasible_whatever_the_limit(limit_bytes: float | None) -> None:
    edge = CostEdge(0, 1, np.array([[FORBIDDEN], [0.0]]))
    first = CostNode("a", np.array([0.0, FORBIDDEN]), np.ones(2))
    outcome = exact(
        CostGraph((first, CostNode("b", np.zeros(1))), (edge,), limit_bytes), SearchBudget()
    )
    assert outcome.status == "infeasible"
    assert outcome.minimum_memory_bytes is None
    assert "forbidden" in outcome.notes[0]


def test_a_graph_without_nodes_costs_nothing() -> None:
    outcome = exact(CostGraph((), ()), SearchBudget())
    assert (outcome.status, outcome.cost_ns) == ("optimal", 0.0)


def test_only_k_of_n_repeats_take_the_cheaper_state_when_the_limit_wants_it() -> None:
    # Ten alike: 1 ns and 3 bytes, or 5 ns and 1 byte. 17 bytes allow three of the first kind.
    cost, memory = np.array([1.0, 5.0]), np.array([3.0, 1.0])
    nodes = tuple(CostNode(f"n{i}", cost, memory) for i in range(10))
    edges = tuple(CostEdge(i, i + 1, np.zeros((2, 2))) for i in range(9))
    outcome = exact(CostGraph(nodes, edges, 17.0), SearchBudget())
    assert outcome.status == "optimal"
    assert (outcome.cost_ns, outcome.memory_bytes) == (3 * 1.0 + 7 * 5.0, 3 * 3.0 + 7 * 1.0)


def test_what_messages_leave_open_the_integer_program_closes() -> None:
    told: list[SearchStep] = []
    graph = uneven_ring(7)
    outcome = exact(graph, SearchBudget(), told.append)
    assert outcome.status == "optimal"
    assert outcome.cost_ns == outcome.lower_bound_ns == brute_force(graph).cost_ns
    assert "CP-SAT" in {progress.stage for progress in told}
    assert min(p.lower_bound_ns for p in told) < outcome.cost_ns


def test_it_answers_where_tables_of_elimination_are_too_large() -> None:
    graph = clique(8, 3)
    budget = SearchBudget(max_table_entries=1000)
    with pytest.raises(TableTooLarge):
        dynamic_programming(graph, budget)
    assert exact(graph, budget).cost_ns == dynamic_programming(graph, SearchBudget()).cost_ns


def test_costs_beside_others_ten_to_the_eighteen_times_as_large() -> None:
    # Ring of differences in ns, each node with a third state that costs 10^18 more.
    ring = uneven_ring(5)
    wide = np.full((3, 3), 1e18)
    wide[:2, :2] = ring.edges[0].cost  # type: ignore[union-attr]  # no projection in it
    nodes = tuple(CostNode(node.name, np.array([0.0, 0.25, 1e18])) for node in ring.nodes)
    edges = tuple(CostEdge(edge.tail, edge.head, wide) for edge in ring.edges)
    graph = CostGraph(nodes, edges)
    outcome = exact(graph, SearchBudget())
    assert outcome.status == "optimal"
    assert outcome.cost_ns == outcome.lower_bound_ns == brute_force(graph).cost_ns


def test_a_start_counts_from_the_beginning_and_never_hurts() -> None:
    for seed in range(20):
        graph = entangled_graph(seed, "always")
        alone = exact(graph, SearchBudget())
        start = np.zeros(len(graph.nodes), dtype=np.int64)
        found = evaluate_choice(graph, start)
        told: list[SearchStep] = []
        helped = exact(graph, SearchBudget(), told.append, start)
        assert (helped.status, helped.cost_ns) == (alone.status, alone.cost_ns), seed
        limit = graph.memory_limit_bytes
        assert limit is not None
        if found.memory_bytes <= limit and found.cost_ns < FORBIDDEN:
            assert (told[0].stage, told[0].cost_ns) == ("start", found.cost_ns), seed
            cut = exact(graph, SearchBudget(seconds=0.0), None, start)
            assert (cut.status, cut.cost_ns) == ("feasible", found.cost_ns), seed


def test_nothing_below_a_cutoff_ends_the_search_without_a_choice() -> None:
    graph = uneven_ring(7)
    least = brute_force(graph).cost_ns
    beaten = exact(graph, SearchBudget(cutoff_ns=least - 0.5))
    assert beaten.lower_bound_ns >= least - 0.5
    assert beaten.notes == ("nothing here costs less than cutoff_ns",)
    assert exact(graph, SearchBudget(cutoff_ns=least + 0.5)).cost_ns == least


@pytest.mark.parametrize("tolerance", [0.01, 0.2])
def test_within_the_tolerance_the_bound_still_holds(tolerance: float) -> None:
    for seed in range(30):
        graph = entangled_graph(seed, "always")
        truth = brute_force(graph)
        outcome = exact(graph, SearchBudget(tolerance=tolerance))
        if truth.cost_ns == FORBIDDEN:
            assert outcome.status == "infeasible", seed
            continue
        assert outcome.status == "optimal", seed
        assert outcome.lower_bound_ns <= truth.cost_ns * (1 + 1e-12), seed
        assert outcome.cost_ns - outcome.lower_bound_ns <= tolerance * outcome.cost_ns, seed


@pytest.mark.parametrize("seconds", [0.0, 1e-3, 1e-2, 3e-2])
def test_a_cut_budget_leaves_an_honest_outcome(seconds: float) -> None:
    for seed in range(8):
        graph = entangled_graph(seed, "always")
        truth = brute_force(graph).cost_ns
        outcome = exact(graph, SearchBudget(seconds=seconds))
        assert outcome.lower_bound_ns <= truth * (1 + 1e-12), seed
        assert outcome.cost_ns >= truth * (1 - 1e-12), seed
        if outcome.status == "infeasible":
            assert truth == FORBIDDEN, seed
        elif outcome.status != "optimal":
            assert outcome.status == ("unknown" if outcome.choice is None else "feasible"), seed
            assert outcome.notes == (f"stopped after {seconds} s",), seed


class Enough(Exception):
    pass


@pytest.mark.parametrize("stage", ["start", "messages", "CP-SAT"])
def test_who_is_told_of_progress_can_end_the_search(stage: str) -> None:
    def told(progress: SearchStep) -> None:
        if progress.stage == stage:
            raise Enough

    with pytest.raises(Enough):
        exact(uneven_ring(7), SearchBudget(), told)


def test_who_asked_can_stop_the_integer_program() -> None:
    stage = "start"

    def told(progress: SearchStep) -> None:
        nonlocal stage
        stage = progress.stage

    outcome = exact(clique(16, 4), SearchBudget(stop=lambda: stage == "CP-SAT"), told)
    assert (outcome.status, stage) == ("feasible", "CP-SAT")


def test_equal_input_gives_the_equal_choice_and_the_equal_way_there() -> None:
    for graph in (clique(9, 3), random_chain(16, 12, 130.0)):
        ways: list[list[SearchStep]] = [[], []]
        first, second = (exact(graph, SearchBudget(), way.append) for way in ways)
        assert first.choice is not None
        assert second.choice is not None
        assert first.choice.tolist() == second.choice.tolist()
        assert ways[0] == ways[1]


def test_progress_only_gets_better() -> None:
    told: list[SearchStep] = []
    outcome = exact(clique(9, 3), SearchBudget(), told.append)
    bounds = [progress.lower_bound_ns for progress in told]
    costs = [progress.cost_ns for progress in told if progress.cost_ns is not None]
    assert bounds == sorted(bounds)
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == outcome.cost_ns


def test_memory_counts_at_each_moment_alone() -> None:
    # a and b live at other times: each may take its 10 bytes, c lives with both. Where all live
    # at once, 10 + 1 + 1 bytes are too many.
    memory = np.array([10.0, 1.0])
    nodes = tuple(CostNode(name, np.array([0.0, 5.0]), memory) for name in "abc")
    graph = CostGraph(nodes, (), 11.0, lifetimes=np.array([[0, 1], [1, 2], [0, 2]]))
    outcome = exact(graph, SearchBudget())
    assert (outcome.status, outcome.cost_ns, outcome.memory_bytes) == ("optimal", 5.0, 11.0)
    assert exact(replace(graph, lifetimes=None), SearchBudget()).cost_ns == 15.0
