from __future__ import annotations

import numpy as np

from meshwright_solver.search.core.cost_graph import (
    CostEdge,
    CostGraph,
    CostNode,
    Projection,
    evaluate_choice,
)
from meshwright_solver.search.message_passing.choice_mixing import mixed


def apart(saves: list[float], takes: list[float], limit: float) -> CostGraph:
    """Nodes that no edge joins: state 1 saves so much and takes so many bytes."""
    nodes = tuple(
        CostNode(f"n{k}", np.array([100.0, 100.0 - saved]), np.array([0.0, taken]))
        for k, (saved, taken) in enumerate(zip(saves, takes, strict=True))
    )
    return CostGraph(nodes, (), limit)


def test_what_saves_most_by_the_byte_comes_first() -> None:
    graph = apart([10.0, 9.0, 4.0], [10.0, 3.0, 4.0], 8.0)
    lean, rich = np.zeros(3, dtype=np.int64), np.ones(3, dtype=np.int64)
    found, price = mixed(graph, lean, rich, 8.0)
    assert found.tolist() == [0, 1, 1]
    assert price == 1.0  # of the first that does not fit, 10 for 10 bytes


def test_all_that_costs_less_and_takes_nothing_changes() -> None:
    graph = apart([5.0, -5.0], [0.0, 0.0], 0.0)
    found, price = mixed(graph, np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.int64), 0.0)
    assert found.tolist() == [1, 0]
    assert price == 0.0


def test_nodes_that_an_edge_or_a_projection_joins_change_together() -> None:
    cost, memory = np.array([10.0, 0.0]), np.array([0.0, 1.0])
    nodes = tuple(CostNode(f"n{k}", cost, memory) for k in range(5))
    apart_costs = np.where(np.eye(2) > 0, 0.0, np.inf)
    edges = (CostEdge(0, 1, apart_costs), Projection(2, 3, np.array([0, 1])))
    lean, rich = np.zeros(5, dtype=np.int64), np.ones(5, dtype=np.int64)
    for limit in range(6):
        graph = CostGraph(nodes, edges, float(limit))
        found, _ = mixed(graph, lean, rich, float(limit))
        assert found[0] == found[1]
        assert found[2] == found[3]
        judged = evaluate_choice(graph, found)
        assert judged.memory_bytes == limit  # two pairs and a single node fill any limit
        assert judged.cost_ns == 50.0 - 10.0 * limit


def test_equal_choices_stay() -> None:
    graph = apart([1.0], [1.0], 1.0)
    same = np.zeros(1, dtype=np.int64)
    assert mixed(graph, same, same, 1.0)[0].tolist() == [0]
