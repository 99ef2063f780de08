from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright_solver.search.core.cost_graph import (
    CostGraph,
    CostGraphError,
    CostNode,
    evaluate_choice,
)
from meshwright_solver.search.core.lifetimes import LifetimesMatter, without_lifetimes
from meshwright_solver.search.core.outcome import ChoiceSearch, SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.search.message_passing.message_search import message_search
from tests.solver.cost_graphs import brute_force
from tests.solver.timed_graphs import random_timed_graph

THREE = tuple(CostNode(f"n{k}", np.zeros(2), np.array([4.0**k, 0.0])) for k in range(3))


def timed(lifetimes: list[list[int]]) -> CostGraph:
    return CostGraph(THREE, (), 100.0, lifetimes=np.array(lifetimes))


def test_the_peak_counts_what_lives_together() -> None:
    # 1 + 4 at times 0 and 1, 4 + 16 at time 2
    graph = timed([[0, 2], [0, 3], [2, 9]])
    assert evaluate_choice(graph, [0, 0, 0]).memory_bytes == 20.0
    assert evaluate_choice(graph, [0, 0, 1]).memory_bytes == 5.0


def test_where_all_live_together_lifetimes_go() -> None:
    same = without_lifetimes(timed([[0, 5], [4, 9], [2, 2]]))
    assert same is not None
    assert same.lifetimes is None
    # the third never lives: 1 + 4
    assert evaluate_choice(same, [0, 0, 0]).memory_bytes == 5.0


def test_where_some_never_meet_lifetimes_matter() -> None:
    assert without_lifetimes(timed([[0, 5], [5, 9], [2, 2]])) is None


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(40))
def test_without_lifetimes_every_choice_costs_the_same(seed: int) -> None:
    graph = random_timed_graph(seed)
    same = without_lifetimes(graph)
    if same is not None:
        assert brute_force(same) == brute_force(graph)


@pytest.mark.parametrize("search", [dynamic_programming, message_search])
def test_searches_without_lifetimes_refuse_those_that_matter(search: ChoiceSearch) -> None:
    always, now_and_then = timed([[0, 5], [4, 9], [2, 2]]), timed([[0, 5], [5, 9], [2, 2]])
    assert search(always, SearchBudget()).status == "optimal"
    with pytest.raises(LifetimesMatter, match="live at different times"):
        search(now_and_then, SearchBudget())


def test_elimination_is_right_where_lifetimes_make_no_difference() -> None:
    graphs = [random_timed_graph(seed) for seed in range(1000, 1090)]
    alike = [graph for graph in graphs if without_lifetimes(graph) is not None]
    assert len(alike) > 20
    for graph in alike:
        truth = brute_force(graph).cost_ns
        outcome = dynamic_programming(graph, SearchBudget())
        assert outcome.cost_ns == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize(
    ("lifetimes", "message"),
    [
        (np.zeros((2, 2), dtype=np.int64), "shape"),
        (np.zeros((3, 2)), "int64"),
        (np.array([[0, 1], [3, 2], [0, 1]]), 'node "n1": its lifetime ends at 2'),
    ],
)
def test_wrong_lifetimes_are_named(lifetimes: np.ndarray, message: str) -> None:
    with pytest.raises(CostGraphError, match=message):
        replace(timed([[0, 1]] * 3), lifetimes=lifetimes)
