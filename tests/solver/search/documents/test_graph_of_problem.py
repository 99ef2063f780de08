from __future__ import annotations

import pytest

from meshwright_solver.search.core.cost_graph import FORBIDDEN, evaluate_choice
from meshwright_solver.search.documents.graph_of_problem import graph_of_problem
from tests.solver.cost_graph_files import CONTEST_EXAMPLE, TWO_NODES, file_of


def test_costs_from_1e17_are_forbidden() -> None:
    graph = graph_of_problem(file_of(TWO_NODES).problem)
    assert evaluate_choice(graph, [0, 0]).cost_ns == FORBIDDEN
    found = evaluate_choice(graph, [1, 0])
    assert (found.cost_ns, found.memory_bytes) == (15.0, 11.0)


def test_an_edge_is_row_major_in_the_order_of_its_nodes() -> None:
    # edge (1, 2) of 2 x 3 strategies: strategy 1 of node 1 with 0 of node 2 is entry 3
    problem = {
        "nodes": {
            "intervals": [[0, 1]] * 3,
            "costs": [[0], [0, 0], [0, 0, 0]],
            "usages": [[0], [0, 0], [0, 0, 0]],
        },
        "edges": {"nodes": [[1, 2], [2, 1]], "costs": [[0, 1, 2, 3, 4, 5], [0] * 4 + [70, 0]]},
    }
    graph = graph_of_problem(file_of(problem).problem)
    assert evaluate_choice(graph, [0, 1, 0]).cost_ns == 3.0
    # the second edge lists node 2 first: its strategy 2 with 0 of node 1 is entry 4
    assert evaluate_choice(graph, [0, 0, 2]).cost_ns == 2.0 + 70.0


@pytest.mark.parametrize("limit", [50, None])
def test_without_a_limit_there_are_no_lifetimes(limit: int | None) -> None:
    graph = graph_of_problem(file_of(CONTEST_EXAMPLE, usage_limit=limit).problem)
    assert (graph.lifetimes is None) == (limit is None)
    assert evaluate_choice(graph, [0, 0, 2, 1, 0]).cost_ns == 445.0


def test_no_nodes_make_an_empty_graph() -> None:
    empty = {"nodes": {"intervals": [], "costs": [], "usages": []}, "usage_limit": 3}
    graph = graph_of_problem(file_of(empty).problem)
    assert (len(graph.nodes), len(graph.edges)) == (0, 0)
