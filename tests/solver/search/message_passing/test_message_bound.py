from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

from meshwright_solver.search.core.cost_graph import CostEdge, CostGraph, CostNode
from meshwright_solver.search.core.interned_tables import CostWeights
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.search.message_passing.flat_tables import FlatTables
from meshwright_solver.search.message_passing.message_bound import lower_bound
from meshwright_solver.search.message_passing.network import network_of
from meshwright_solver.search.message_passing.state_selection import decoded
from meshwright_solver.search.message_passing.trws import (
    SingleMessages,
    links_of,
    no_messages,
    sweep,
)
from tests.solver.shared_graphs import shared_graph

STOP = np.zeros(1, dtype=np.int64)


def bounds(graph: CostGraph, sweeps: int, *, noise: float = 0.0) -> list[float]:
    """After every sweep; noise is added to all messages first."""
    network = network_of(graph)
    links, numbers = links_of(network), FlatTables(network)
    numbers.write(
        network.definitions.at(CostWeights(1.0, 0.0), network.wanted()), CostWeights(1.0, 0.0)
    )
    messages: SingleMessages = no_messages(links)
    random = np.random.default_rng(0)
    found = []
    with ThreadPoolExecutor() as pool:
        for _ in range(sweeps):
            sweep(links, numbers.single, messages, STOP)
            for side in messages:
                side += (random.random(side.size) * noise).astype(np.float32)
            found.append(lower_bound(links, numbers, messages, pool))
    return found


def test_a_bound_rises_and_never_exceeds_the_optimum() -> None:
    for seed in range(12):
        graph = shared_graph(seed, 60)
        best = dynamic_programming(graph, SearchBudget()).cost_ns
        found = bounds(graph, 12)
        assert max(found) <= best
        # single precision lets it sink by no more than its last digits
        assert all(after >= before - 1e-5 * abs(best) for before, after in pairwise(found))
        assert found[-1] >= 0.85 * best


@pytest.mark.parametrize("noise", [1.0, 1e3, 1e6])
def test_a_bound_holds_whatever_the_messages_are(noise: float) -> None:
    for seed in range(8):
        graph = shared_graph(seed, 40)
        best = dynamic_programming(graph, SearchBudget()).cost_ns
        assert max(bounds(graph, 2, noise=noise)) <= best


def test_on_a_chain_messages_are_exact() -> None:
    random = np.random.default_rng(7)
    nodes = tuple(CostNode(f"n{k}", random.integers(0, 100, 9).astype(float)) for k in range(30))
    edges = tuple(
        CostEdge(k, k + 1, random.integers(0, 100, (9, 9)).astype(float)) for k in range(29)
    )
    graph = CostGraph(nodes, edges)
    best = dynamic_programming(graph, SearchBudget()).cost_ns
    assert bounds(graph, 1)[0] == pytest.approx(best, rel=1e-6)


def test_decoding_a_chain_gives_the_best_choice() -> None:
    random = np.random.default_rng(8)
    nodes = tuple(CostNode(f"n{k}", random.random(9)) for k in range(30))
    edges = tuple(CostEdge(k, k + 1, random.random((9, 9))) for k in range(29))
    graph = CostGraph(nodes, edges)
    network = network_of(graph)
    links, numbers, messages = (
        links_of(network),
        FlatTables(network),
        no_messages(links_of(network)),
    )
    numbers.write(
        network.definitions.at(CostWeights(1.0, 0.0), network.wanted()), CostWeights(1.0, 0.0)
    )
    sweep(links, numbers.single, messages, STOP)
    best = dynamic_programming(graph, SearchBudget()).choice
    assert best is not None
    assert decoded(links, numbers.single, messages).tolist() == best.tolist()


def test_a_sweep_ends_when_asked_to() -> None:
    graph = shared_graph(1, 60)
    network = network_of(graph)
    links, numbers = links_of(network), FlatTables(network)
    numbers.write(
        network.definitions.at(CostWeights(1.0, 0.0), network.wanted()), CostWeights(1.0, 0.0)
    )
    messages = no_messages(links)
    sweep(links, numbers.single, messages, np.ones(1, dtype=np.int64))
    assert not messages.to_head.any()
    assert not messages.to_tail.any()
