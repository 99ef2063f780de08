from __future__ import annotations

import math

import numpy as np
import pytest

from meshwright_solver.common.deadline import Deadline
from meshwright_solver.search.core.cost_graph import (
    FORBIDDEN,
    CostEdge,
    CostGraph,
    CostNode,
    Projection,
    evaluate_choice,
)
from meshwright_solver.search.lagrangian.memory_profile import cost_of, profile_of
from meshwright_solver.search.lagrangian.model import model_of
from meshwright_solver.search.lagrangian.reductions import Reduced, reduced
from tests.solver.cost_graphs import brute_force
from tests.solver.search.lagrangian.random_models import all_states, least_cost, random_model


def reduced_graph(graph: CostGraph) -> Reduced:
    return reduced(model_of(graph), Deadline.after(None))


def test_one_to_one_edges_join_a_chain_into_one_node() -> None:
    # b = 1 - a and c = b: the two choices left cost 1 + 40 + 400 and 2 + 30 + 300
    nodes = tuple(
        CostNode(name, np.array(cost), np.array(memory))
        for name, cost, memory in (
            ("a", [1.0, 2.0], [0.0, 9.0]),
            ("b", [30.0, 40.0], [0.0, 0.0]),
            ("c", [300.0, 400.0], [5.0, 0.0]),
        )
    )
    swap = np.array([[FORBIDDEN, 0.0], [0.0, FORBIDDEN]])
    graph = CostGraph(nodes, (CostEdge(0, 1, swap), Projection(1, 2, np.array([0, 1]))), 20.0)
    small = reduced_graph(graph)
    assert small.model is not None
    assert small.model.extents.tolist() == [2]
    for states, choice in (([0], [0, 1, 1]), ([1], [1, 0, 0])):
        found = small.invert(np.array(states))
        assert found.tolist() == choice
        assert cost_of(small.model, np.array(states)) == evaluate_choice(graph, choice).cost_ns


def test_a_dominated_state_stays_if_it_takes_less_memory() -> None:
    cheap = CostNode("n", np.array([1.0, 2.0]), np.array([4.0, 3.0]))
    small = reduced_graph(CostGraph((cheap,), (), 10.0))
    assert small.model is not None
    assert small.model.extents.tolist() == [2]
    same = CostNode("n", np.array([1.0, 2.0]), np.array([3.0, 3.0]))
    small = reduced_graph(CostGraph((same,), (), 10.0))
    assert small.model is not None
    assert small.model.extents.tolist() == [1]
    assert small.model.base.tolist() == [3.0]


def test_separable_edges_go() -> None:
    nodes = (
        CostNode("a", np.array([1.0, 0.0]), np.array([0.0, 1.0])),
        CostNode("b", np.array([1.0, 0.0]), np.array([0.0, 1.0])),
    )
    table = np.array([[1.0, 2.0], [4.0, 5.0]])
    small = reduced_graph(CostGraph(nodes, (CostEdge(0, 1, table),), 1.0))
    assert small.model is not None
    assert small.model.edges == 0


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(100))
def test_the_optimum_stays_and_the_way_back_costs_the_same(seed: int) -> None:
    graph, _ = random_model(seed)
    limit = math.inf if graph.memory_limit_bytes is None else graph.memory_limit_bytes
    truth = brute_force(graph).cost_ns
    small = reduced_graph(graph)
    if small.model is None:
        assert truth == FORBIDDEN
        return
    assert least_cost(small.model, limit) == pytest.approx(truth, rel=1e-9)
    for states in all_states(small.model):
        choice = small.invert(states)[: len(graph.nodes)]
        cost = cost_of(small.model, states)
        if cost == math.inf:
            # the node of an edge that takes memory may disagree with the edge's ends
            continue
        found = evaluate_choice(graph, choice)
        assert cost == pytest.approx(found.cost_ns, rel=1e-9)
        peak = profile_of(small.model, states).max()
        assert peak == pytest.approx(found.memory_bytes, abs=1e-9)


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(40))
def test_projected_states_come_back_as_they_were(seed: int) -> None:
    graph, _ = random_model(seed)
    small = reduced_graph(graph)
    if small.model is not None:
        for states in all_states(small.model):
            assert small.project(small.invert(states)).tolist() == states.tolist()
