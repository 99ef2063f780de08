from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright_solver.search.core.cost_graph import (
    FORBIDDEN,
    CostEdge,
    CostGraph,
    CostNode,
    evaluate_choice,
)
from meshwright_solver.search.core.incumbent import SearchStep
from meshwright_solver.search.core.outcome import Outcome, SearchBudget, TableTooLarge
from meshwright_solver.search.elimination.dynamic_programming import (
    DynamicProgramming,
    dynamic_programming,
)
from tests.solver.cost_graphs import brute_force, random_chain, random_graph, unshared

CLOSE = 1e-9


def holds(graph: CostGraph, outcome: Outcome) -> bool:
    """The outcome's numbers are the judge's, and the choice is within the limit."""
    assert outcome.choice is not None
    found = evaluate_choice(graph, outcome.choice)
    limit = math.inf if graph.memory_limit_bytes is None else graph.memory_limit_bytes
    return (
        found.cost_ns == outcome.cost_ns
        and found.memory_bytes == outcome.memory_bytes <= limit
        and outcome.lower_bound_ns <= outcome.cost_ns
    )


def two_nodes(limit_bytes: float | None) -> CostGraph:
    """cost(a, b) = [[0 + 5 + 1, 0 + 5 + 9], [4 + 0 + 9, 4 + 0 + 1]] = [[6, 14], [13, 5]]

    memory(a, b) = [[1 + 0, 1 + 2], [8 + 0, 8 + 2]] = [[1, 3], [8, 10]]
    """
    first = CostNode("a", np.array([0.0, 4.0]), np.array([1.0, 8.0]))
    second = CostNode("b", np.array([0.0, 0.0]), np.array([0.0, 2.0]))
    edge = CostEdge(0, 1, np.array([[6.0, 14.0], [9.0, 1.0]]))
    return CostGraph((first, second), (edge,), limit_bytes)


def test_without_a_limit_the_cheapest_choice_wins() -> None:
    outcome = dynamic_programming(two_nodes(None), SearchBudget())
    assert outcome.status == "optimal"
    assert outcome.choice is not None
    assert outcome.choice.tolist() == [1, 1]
    assert (outcome.cost_ns, outcome.memory_bytes, outcome.lower_bound_ns) == (5.0, 10.0, 5.0)


def test_the_limit_binds_exactly() -> None:
    within = dynamic_programming(two_nodes(10.0), SearchBudget())
    below = dynamic_programming(two_nodes(9.99), SearchBudget())
    assert (within.cost_ns, below.cost_ns) == (5.0, 6.0)
    assert below.status == "optimal"
    assert below.minimum_memory_bytes == 1.0


def test_a_start_is_kept_only_until_something_cheaper_is_found() -> None:
    for limit, start, best in ((9.99, [0, 1], 6.0), (10.0, [0, 0], 5.0), (9.99, [1, 1], 6.0)):
        outcome = dynamic_programming(two_nodes(limit), SearchBudget(), start=np.array(start))
        assert (outcome.status, outcome.cost_ns, outcome.lower_bound_ns) == ("optimal", best, best)


def test_the_first_step_knows_the_least_cost_without_the_limit_and_the_second_keeps_it() -> None:
    search = DynamicProgramming(two_nodes(9.99), SearchBudget())
    assert search.floor_ns == 5.0
    assert search.outcome(SearchBudget(cutoff_ns=5.0)).status == "unknown"
    again = DynamicProgramming(two_nodes(9.99), SearchBudget())
    assert again.outcome(SearchBudget(cutoff_ns=7.0)).cost_ns == 6.0


def test_a_limit_below_the_least_memory_is_infeasible() -> None:
    outcome = dynamic_programming(two_nodes(0.5), SearchBudget())
    assert outcome.status == "infeasible"
    assert outcome.choice is None
    assert outcome.minimum_memory_bytes == 1.0
    assert "limit" in outcome.notes[0]


def test_forbidden_everywhere_is_infeasible_without_any_limit() -> None:
    first = CostNode("a", np.array([0.0, FORBIDDEN]))
    second = CostNode("b", np.array([0.0]))
    edge = CostEdge(0, 1, np.array([[FORBIDDEN], [0.0]]))
    outcome = dynamic_programming(CostGraph((first, second), (edge,)), SearchBudget())
    assert outcome.status == "infeasible"
    assert outcome.minimum_memory_bytes is None
    assert "forbidden" in outcome.notes[0]


def test_a_graph_without_nodes_costs_nothing() -> None:
    outcome = dynamic_programming(CostGraph((), ()), SearchBudget())
    assert (outcome.status, outcome.cost_ns) == ("optimal", 0.0)


def test_only_k_of_n_repeats_take_the_cheaper_state_when_the_limit_wants_it() -> None:
    # Ten alike: 1 ns and 3 bytes, or 5 ns and 1 byte. 17 bytes allow three of the first kind.
    cost, memory = np.array([1.0, 5.0]), np.array([3.0, 1.0])
    stay = np.zeros((2, 2))
    nodes = tuple(CostNode(f"n{i}", cost, memory) for i in range(10))
    edges = tuple(CostEdge(i, i + 1, stay) for i in range(9))
    outcome = dynamic_programming(CostGraph(nodes, edges, 17.0), SearchBudget())
    assert outcome.status == "optimal"
    assert (outcome.cost_ns, outcome.memory_bytes) == (3 * 1.0 + 7 * 5.0, 3 * 3.0 + 7 * 1.0)


@pytest.mark.rotating
@pytest.mark.parametrize("batch", range(25))
def test_equals_brute_force(batch: int) -> None:
    for seed in range(100 * batch, 100 * batch + 100):
        graph = random_graph(seed)
        truth = brute_force(graph)
        outcome = dynamic_programming(graph, SearchBudget())
        if truth.cost_ns == FORBIDDEN:
            assert outcome.status == "infeasible", seed
        else:
            assert outcome.status == "optimal", seed
            assert outcome.cost_ns == pytest.approx(truth.cost_ns, rel=CLOSE), seed
            assert outcome.lower_bound_ns <= truth.cost_ns * (1 + CLOSE), seed
            assert holds(graph, outcome), seed
        if outcome.minimum_memory_bytes is not None:
            least = pytest.approx(truth.minimum_memory_bytes, rel=CLOSE, abs=CLOSE)
            assert outcome.minimum_memory_bytes == least, seed


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 10**9),
    repeats=st.integers(1, 9),
    limit_per_node=st.one_of(st.none(), st.floats(0.0, 9.0)),
)
def test_folded_equals_unfolded(seed: int, repeats: int, limit_per_node: float | None) -> None:
    limit = None if limit_per_node is None else limit_per_node * 2 * (repeats + 1)
    folded = random_chain(seed, repeats, limit)
    ours = dynamic_programming(folded, SearchBudget())
    theirs = dynamic_programming(unshared(folded), SearchBudget())
    assert (ours.status, ours.cost_ns) == (theirs.status, theirs.cost_ns)
    # of two cheapest choices one may fit, and the least memory then is not asked for
    leanest = {ours.minimum_memory_bytes, theirs.minimum_memory_bytes} - {None}
    assert len(leanest) <= 1
    assert ours.choice is None or holds(folded, ours)


@settings(max_examples=25, deadline=None)  # of some 12,000 choices each
@given(seed=st.integers(0, 10**9), limit_per_node=st.floats(0.0, 9.0))
def test_short_chains_equal_brute_force(seed: int, limit_per_node: float) -> None:
    graph = random_chain(seed, 2, limit_per_node * 6)
    outcome = dynamic_programming(graph, SearchBudget())
    truth = brute_force(graph)
    assert outcome.cost_ns == truth.cost_ns
    assert outcome.status == ("infeasible" if truth.cost_ns == FORBIDDEN else "optimal")


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9), tolerance=st.floats(0.0, 0.5))
def test_within_the_tolerance_the_bound_still_holds(seed: int, tolerance: float) -> None:
    graph = random_graph(seed)
    truth = brute_force(graph)
    outcome = dynamic_programming(graph, SearchBudget(tolerance=tolerance))
    assert outcome.lower_bound_ns <= truth.cost_ns * (1 + CLOSE)
    if outcome.status == "optimal":
        gap = outcome.cost_ns - outcome.lower_bound_ns
        assert gap <= (tolerance + CLOSE) * outcome.cost_ns
        assert outcome.cost_ns * (1 - tolerance - CLOSE) <= truth.cost_ns


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**9), seconds=st.sampled_from([0.0, 1e-4, 1e-3, 3e-3]))
def test_a_cut_budget_leaves_an_honest_outcome(seed: int, seconds: float) -> None:
    graph = random_chain(seed, 5, 40.0)
    outcome = dynamic_programming(graph, SearchBudget(seconds=seconds))
    optimum = dynamic_programming(graph, SearchBudget())
    assert outcome.lower_bound_ns <= optimum.cost_ns * (1 + CLOSE)
    assert outcome.cost_ns >= optimum.cost_ns * (1 - CLOSE)
    if outcome.status in ("optimal", "infeasible"):
        assert (outcome.status, outcome.cost_ns) == (optimum.status, optimum.cost_ns)
    else:
        assert outcome.status == ("unknown" if outcome.choice is None else "feasible")
        assert outcome.notes == (f"stopped after {seconds} s",)


def test_no_time_at_all_is_unknown_with_a_bound_that_holds() -> None:
    outcome = dynamic_programming(two_nodes(9.0), SearchBudget(seconds=0.0))
    # Least of each array: 0 + 0 + 1.
    assert (outcome.status, outcome.choice, outcome.lower_bound_ns) == ("unknown", None, 1.0)
    assert outcome.cost_ns == math.inf


def test_equal_input_gives_the_equal_choice() -> None:
    graph = random_chain(16, 12, 130.0)
    first, second = (dynamic_programming(graph, SearchBudget()) for _ in range(2))
    assert first.choice is not None
    assert second.choice is not None
    assert first.choice.tolist() == second.choice.tolist()


def test_a_table_beyond_the_budget_is_refused_with_its_size() -> None:
    # Four nodes, all joined: the first elimination leaves a table over the three others.
    node = CostNode("n", np.zeros(5))
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    edges = tuple(CostEdge(a, b, np.zeros((5, 5))) for a, b in pairs)
    graph = CostGraph((node,) * 4, edges)
    with pytest.raises(TableTooLarge, match=r'node "n" needs 125 table entries') as caught:
        dynamic_programming(graph, SearchBudget(max_table_entries=124))
    assert (caught.value.entries, caught.value.max_entries) == (125, 124)
    assert dynamic_programming(graph, SearchBudget(max_table_entries=125)).status == "optimal"


def test_more_tables_than_may_be_held_are_refused() -> None:
    with pytest.raises(TableTooLarge, match="whole graph"):
        dynamic_programming(two_nodes(None), SearchBudget(max_held_entries=1))


def test_progress_only_gets_better() -> None:
    told: list[SearchStep] = []
    graph = random_chain(16, 10, 110.0)
    outcome = dynamic_programming(graph, SearchBudget(), told.append)
    assert outcome.status == "optimal"
    bounds = [progress.lower_bound_ns for progress in told]
    costs = [progress.cost_ns for progress in told if progress.cost_ns is not None]
    assert bounds == sorted(bounds)
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == outcome.cost_ns
