from __future__ import annotations

import itertools

import numpy as np
import pytest

from meshwright_solver.search.core.cost_graph import (
    CostEdge,
    CostGraph,
    CostNode,
    Projection,
    evaluate_choice,
)
from meshwright_solver.search.core.interned_tables import CostWeights
from meshwright_solver.search.message_passing.contraction import contracted
from meshwright_solver.search.message_passing.network import Network, network_of
from tests.solver.cost_graphs import random_chain, random_graph


def weighted(network: Network, weights: CostWeights, states: tuple[int, ...]) -> float:
    """What states of a network's nodes cost, by its definition."""
    known = network.definitions.at(weights, network.wanted())
    total = sum(known[v][s] for v, s in zip(network.vectors.tolist(), states, strict=True))
    edges = zip(network.tables.tolist(), network.tails, network.heads, strict=True)
    return float(total + sum(known[t][states[a], states[b]] for t, a, b in edges))


def least(
    network: Network, weights: CostWeights
) -> tuple[float, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """By enumeration: the least, and the choice of the whole graph that has it."""
    every = itertools.product(*(range(extent) for extent in network.extents))
    found = min((weighted(network, weights, states), states) for states in every)
    known = network.definitions.at(weights, network.wanted_back())
    return found[0], network.back(np.array(found[1], dtype=np.int64), known)


def judged(graph: CostGraph, weights: CostWeights, choice: object) -> float:
    found = evaluate_choice(graph, np.asarray(choice))
    if found.cost_ns == np.inf:
        return np.inf
    return weights.cost * found.cost_ns + weights.memory * found.memory_bytes


@pytest.mark.parametrize(
    "weights", [CostWeights(1.0, 0.0), CostWeights(1.0, 0.7), CostWeights(0.0, 1.0)]
)
def test_a_network_costs_what_its_graph_costs_and_leads_back(weights: CostWeights) -> None:
    for seed in range(40):
        graph = random_graph(seed)
        every = itertools.product(*(range(extent) for extent in graph.extents))
        truth = min(judged(graph, weights, choice) for choice in every)
        value, choice = least(network_of(graph), weights)
        assert value == pytest.approx(truth, rel=1e-12)
        assert judged(graph, weights, choice) == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_alike_goes_and_leads_back(seed: int) -> None:
    graph = random_chain(seed, 6)
    weights = CostWeights(1.0, 0.3)
    whole, small = network_of(graph), contracted(network_of(graph))
    assert len(small.names) < len(whole.names) < len(graph.nodes)
    known = small.definitions.at(weights, np.concatenate([small.wanted(), small.wanted_back()]))
    random = np.random.default_rng(seed)
    for _ in range(20):
        # the rest is completed as well as can be: no state of a node that went would do better
        states = (random.random(len(small.names)) * small.extents).astype(np.int64)
        choice = small.back(states, known)
        value = weighted(small, weights, tuple(states))
        assert judged(graph, weights, choice) == pytest.approx(value, rel=1e-12)
        gone = np.setdiff1d(whole.names, small.names)
        for name in gone[np.isin(gone, np.arange(len(graph.nodes)))][:3]:
            for other in range(graph.extents[name]):
                changed = choice[whole.names].copy()
                changed[np.searchsorted(whole.names, name)] = other
                assert weighted(whole, weights, tuple(changed)) >= value * (1 - 1e-12)


def test_nodes_that_others_decide_are_joined_with_those_in_the_end() -> None:
    nodes = tuple(CostNode(f"n{k}", np.arange(3.0) * k) for k in range(3))
    turn = np.array([1, 2, 0])
    edges = (Projection(0, 1, turn), Projection(1, 2, turn), CostEdge(0, 2, np.eye(3)))
    network = network_of(CostGraph(nodes, edges))
    assert network.names.tolist() == [0]
    # node 0 in state s: 1 in s + 1, 2 in s + 2, and the edge counts where s + 2 == s, nowhere
    known = network.definitions.at(CostWeights(1.0, 0.0), network.wanted())
    assert known[int(network.vectors[0])].tolist() == [1 + 4, 2 + 0, 0 + 2]


def test_equal_arrays_are_defined_once() -> None:
    nodes = (CostNode("n", np.zeros(3)),) * 50
    edge = np.ones((3, 3))
    edges = tuple(CostEdge(k, k + 1, edge) for k in range(49))
    network = network_of(CostGraph(nodes, edges))
    assert len(network.definitions.definitions) == 2
