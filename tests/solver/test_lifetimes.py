from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solver.cost_graph import CostGraph, CostGraphError, Node, evaluate_choice
from solver.dynamic_programming import dynamic_programming
from solver.lifetimes import without_lifetimes
from solver.outcome import Budget
from tests.solver.cost_graphs import brute_force
from tests.solver.timed_graphs import random_timed_graph

THREE = tuple(Node(f"n{k}", np.zeros(2), np.array([4.0**k, 0.0])) for k in range(3))


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


@pytest.mark.parametrize("seed", range(40))
def test_without_lifetimes_every_choice_costs_the_same(seed: int) -> None:
    graph = random_timed_graph(seed)
    same = without_lifetimes(graph)
    if same is not None:
        assert brute_force(same) == brute_force(graph)


@pytest.mark.parametrize("batch", range(3))
def test_dynamic_programming_is_never_wrong_about_lifetimes(batch: int) -> None:
    for seed in range(1000 + 30 * batch, 1030 + 30 * batch):
        graph = random_timed_graph(seed)
        truth = brute_force(graph).cost_ns
        outcome = dynamic_programming(graph, Budget())
        if outcome.status == "optimal":
            assert outcome.cost_ns == pytest.approx(truth, rel=1e-9)
        else:
            assert outcome.lower_bound_ns <= truth * (1 + 1e-9)
        if outcome.choice is not None:
            found = evaluate_choice(graph, outcome.choice)
            assert graph.memory_limit_bytes is None or (
                found.memory_bytes <= graph.memory_limit_bytes
            )


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
