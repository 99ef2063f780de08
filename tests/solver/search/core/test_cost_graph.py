from __future__ import annotations

import math

import numpy as np
import pytest

from meshwright_solver.search.core.cost_graph import (
    FORBIDDEN,
    CostEdge,
    CostGraph,
    CostGraphError,
    CostNode,
    Projection,
    evaluate_choice,
)

TWO = CostNode("two", np.array([1.0, 2.0]))
THREE = CostNode("three", np.array([10.0, 20.0, 30.0]), np.array([1.0, 2.0, 4.0]))


def test_a_choice_costs_its_nodes_and_all_parallel_edges() -> None:
    first = CostEdge(0, 1, np.full((2, 3), 100.0), np.full((2, 3), 8.0))
    second = CostEdge(1, 0, np.full((3, 2), 1000.0))
    graph = CostGraph((TWO, THREE), (first, second))
    found = evaluate_choice(graph, [1, 2])
    # 2 + 30 + 100 + 1000; 4 of the node and 8 of the edge
    assert (found.cost_ns, found.memory_bytes) == (1132.0, 12.0)


def test_a_projection_is_free_where_it_is_followed_and_forbidden_elsewhere() -> None:
    graph = CostGraph((TWO, THREE), (CostEdge.projection(0, 1, np.array([2, 0])),))
    assert evaluate_choice(graph, [0, 2]).cost_ns == 31.0
    assert evaluate_choice(graph, [0, 1]).cost_ns == FORBIDDEN


def test_a_choice_that_is_none_is_refused() -> None:
    graph = CostGraph((TWO, THREE), ())
    with pytest.raises(CostGraphError, match="1 states for 2 nodes"):
        evaluate_choice(graph, [0])
    with pytest.raises(CostGraphError, match='"two" has no state 2'):
        evaluate_choice(graph, [2, 0])


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (CostNode("n", np.empty(0)), r"k >= 1"),
        (CostNode("n", np.ones((2, 2))), r"shape \(k,\)"),
        (CostNode("n", np.array([math.nan])), "NaN"),
        (CostNode("n", np.array([-math.inf])), "-inf"),
        (CostNode("n", np.ones(2, dtype=np.float32)), "float64"),
        (CostNode("n", np.ones(2), np.ones(3)), r"memory has shape \(3,\)"),
        (CostNode("n", np.ones(2), np.array([-1.0, 0.0])), "0 or more"),
        (CostNode("n", np.ones(2), np.array([math.inf, 0.0])), "finite"),
    ],
)
def test_an_impossible_node_is_refused_by_name(node: CostNode, message: str) -> None:
    with pytest.raises(CostGraphError, match=message) as caught:
        CostGraph((node,), ())
    assert 'node "n"' in str(caught.value)


@pytest.mark.parametrize(
    ("edge", "message"),
    [
        (CostEdge(0, 2, np.ones((2, 3))), "only nodes 0 to 1"),
        (CostEdge(-1, 0, np.ones((2, 3))), "only nodes 0 to 1"),
        (CostEdge(1, 1, np.ones((3, 3))), "joins two nodes"),
        (CostEdge(0, 1, np.ones((3, 2))), r"the nodes need \(2, 3\)"),
        (CostEdge(0, 1, np.full((2, 3), math.nan)), "NaN"),
        (CostEdge(0, 1, np.ones((2, 3)), np.ones((3, 2))), "memory has shape"),
        (Projection(0, 1, np.array([0, 3])), "0 to 2"),
        (Projection(0, 1, np.array([0])), r"the tail needs \(2,\)"),
        (Projection(0, 1, np.array([0.0, 1.0])), "int64"),
    ],
)
def test_an_impossible_edge_is_refused(edge: CostEdge | Projection, message: str) -> None:
    with pytest.raises(CostGraphError, match=message):
        CostGraph((TWO, THREE), (edge,))


@pytest.mark.parametrize("limit", [-1.0, math.nan])
def test_an_impossible_limit_is_refused(limit: float) -> None:
    with pytest.raises(CostGraphError, match="memory_limit_bytes"):
        CostGraph((TWO,), (), limit)
