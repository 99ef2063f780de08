from __future__ import annotations

import itertools

import pytest

from meshwright.schema import InvalidInput
from meshwright_solver.search.core.cost_graph import FORBIDDEN, evaluate_choice
from meshwright_solver.search.documents.graph_of_problem import graph_of_problem
from meshwright_solver.search.documents.solution_score import score_solution
from tests.solver.cost_graph_files import CONTEST_EXAMPLE, TWO_NODES, file_of, random_problem


def test_the_example_of_the_contest() -> None:
    problem = file_of(CONTEST_EXAMPLE).problem
    best = score_solution(problem, [0, 0, 2, 1, 0])
    # 10 at 30, 35 at 40, 50 from 50 on
    assert (best.cost, best.peak_usage, best.peak_time) == (445.0, 50.0, 50)
    assert best.is_allowed
    assert best.is_within
    # strategy 1 of node 2: 45 + 10 + 20 in place of 105, and 55 of memory
    over = score_solution(problem, [0, 0, 1, 1, 0])
    assert (over.cost, over.peak_usage, over.is_within) == (415.0, 55.0, False)


def test_an_end_comes_before_a_start_at_the_same_time() -> None:
    nodes = {"intervals": [[0, 5], [5, 9], [7, 7]], "costs": [[0]] * 3, "usages": [[3], [4], [100]]}
    score = score_solution(file_of({"nodes": nodes, "usage_limit": 4}).problem, [0, 0, 0])
    assert (score.peak_usage, score.peak_time, score.is_within) == (4.0, 5, True)


def test_a_forbidden_pair_is_not_allowed() -> None:
    assert not score_solution(file_of(TWO_NODES).problem, [0, 0]).is_allowed


def test_whole_usages_add_up_exactly_beyond_doubles() -> None:
    # 2^54 + 1 is no double: of the limit of 2^54 one is too much, though less than rounding
    nodes = {"intervals": [[0, 1], [0, 1]], "costs": [[0], [0]], "usages": [[2**54], [1]]}
    score = score_solution(file_of({"nodes": nodes, "usage_limit": 2**54}).problem, [0, 0])
    assert score.is_within, "engines add up doubles"
    less = {**nodes, "usages": [[2**53 - 1], [1]]}
    assert not score_solution(
        file_of({"nodes": less, "usage_limit": 2**53 - 1}).problem, [0, 0]
    ).is_within


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(30))
def test_agrees_with_the_cost_graph_on_every_choice(seed: int) -> None:
    problem = file_of(random_problem(seed)).problem
    graph = graph_of_problem(problem)
    for choice in itertools.product(*(range(len(costs)) for costs in problem.nodes.costs)):
        score, found = score_solution(problem, choice), evaluate_choice(graph, choice)
        assert score.is_allowed == (found.cost_ns < FORBIDDEN)
        if score.is_allowed:
            assert score.cost == found.cost_ns
        if graph.memory_limit_bytes is not None:
            assert score.peak_usage == found.memory_bytes


@pytest.mark.parametrize(
    ("choice", "said"), [([0], "1 entries"), ([0, 2], "no strategy 2"), ([-1, 0], "no strategy -1")]
)
def test_a_choice_that_does_not_fit_is_refused(choice: list[int], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        score_solution(file_of(TWO_NODES).problem, choice)
