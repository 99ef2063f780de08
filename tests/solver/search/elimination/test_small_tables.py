from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.search.core.cost_graph import CostEdge, CostGraph, CostNode, evaluate_choice
from meshwright_solver.search.core.interned_tables import CostWeights
from meshwright_solver.search.elimination.small_tables import MOST_ENTRIES, DirectElimination
from tests.solver.cost_graphs import brute_force, random_chain, random_graph


def once(graph: CostGraph) -> DirectElimination:
    return DirectElimination(graph, np.ones(len(graph.nodes)), np.ones(len(graph.edges)))


@pytest.mark.parametrize("batch", range(2))
def test_equals_brute_force_under_any_price_of_memory(batch: int) -> None:
    for seed in range(60 * batch, 60 * batch + 60):
        graph = replace(random_graph(seed), memory_limit_bytes=None)
        direct = once(graph)
        assert direct.is_small
        for ns_per_byte in (0.0, 0.5, 3.0):
            found = direct.least(CostWeights(1.0, ns_per_byte))
            least = brute_force(_priced(graph, ns_per_byte)).cost_ns
            assert found.value == pytest.approx(least, rel=1e-12)
            if least < np.inf:
                taken = evaluate_choice(graph, found.choice())
                assert taken.cost_ns + ns_per_byte * taken.memory_bytes == pytest.approx(least)
                assert direct.memory_bytes(found.choice()) == pytest.approx(taken.memory_bytes)


def test_least_memory_alone_keeps_what_is_forbidden() -> None:
    for seed in range(60):
        graph = replace(random_graph(seed), memory_limit_bytes=None)
        least = brute_force(graph).minimum_memory_bytes
        assert once(graph).least(CostWeights(0.0, 1.0)).value == pytest.approx(least)


def test_what_counts_more_often_costs_as_much_more() -> None:
    for seed in range(50):
        graph = replace(random_graph(seed), memory_limit_bytes=None)
        random = np.random.default_rng(seed)
        of_nodes = random.integers(1, 9, len(graph.nodes)).astype(np.float64)
        of_edges = random.integers(1, 9, len(graph.edges)).astype(np.float64)
        found = DirectElimination(graph, of_nodes, of_edges).least(CostWeights(1.0, 0.0))
        nodes = [CostNode(n.name, n.cost * k) for n, k in zip(graph.nodes, of_nodes, strict=True)]
        edges = [
            CostEdge(e.tail, e.head, e.cost * k) if isinstance(e, CostEdge) else e
            for e, k in zip(graph.edges, of_edges, strict=True)
        ]
        least = brute_force(CostGraph(tuple(nodes), tuple(edges))).cost_ns
        assert found.value == pytest.approx(least)


def test_a_long_chain_costs_what_its_choice_costs() -> None:
    graph = random_chain(3, 300)
    found = once(graph).least(CostWeights(1.0, 0.0))
    assert found.value == evaluate_choice(graph, found.choice()).cost_ns


def test_tables_that_would_be_large_are_refused() -> None:
    # whichever of 5 nodes goes first leaves a table over the 4 others: 40^4 entries
    count, states = 5, 40
    assert states ** (count - 1) > MOST_ENTRIES
    nodes = tuple(CostNode(str(k), np.zeros(states)) for k in range(count))
    table: FloatArray = np.zeros((states, states))
    edges = tuple(CostEdge(a, b, table) for a in range(count) for b in range(a + 1, count))
    assert not once(CostGraph(nodes, edges)).is_small


def test_no_nodes_cost_nothing() -> None:
    found = once(CostGraph((), ())).least(CostWeights(1.0, 0.0))
    assert (found.value, len(found.choice())) == (0.0, 0)


def _priced(graph: CostGraph, ns_per_byte: float) -> CostGraph:
    def priced(part: CostNode | CostEdge) -> FloatArray:
        return part.cost if part.memory is None else part.cost + ns_per_byte * part.memory

    return CostGraph(
        tuple(CostNode(node.name, priced(node)) for node in graph.nodes),
        tuple(
            CostEdge(edge.tail, edge.head, priced(edge)) if isinstance(edge, CostEdge) else edge
            for edge in graph.edges
        ),
    )
