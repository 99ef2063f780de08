from __future__ import annotations

import itertools

import numpy as np
import pytest

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.search.core.cost_graph import CostGraph, evaluate_choice
from meshwright_solver.search.core.interned_tables import CostWeights
from meshwright_solver.search.message_passing.few_states_elimination import best_of_few
from meshwright_solver.search.message_passing.flat_tables import FlatTables
from meshwright_solver.search.message_passing.network import Network, network_of
from meshwright_solver.search.message_passing.trws import NetworkArrays, links_of
from tests.solver.entangled_graphs import entangled_graph
from tests.solver.shared_graphs import shared_graph


def prepared(graph: CostGraph) -> tuple[Network, NetworkArrays, FloatArray, dict[int, FloatArray]]:
    network = network_of(graph)
    wanted = np.concatenate([network.wanted(), network.wanted_back()])
    known = network.definitions.at(CostWeights(1.0, 0.0), wanted)
    numbers = FlatTables(network)
    numbers.write(known, CostWeights(1.0, 0.0))
    return network, links_of(network), numbers.exact, known


def some_states(extents: IntArray, most: int, seed: int) -> IntArray:
    random = np.random.default_rng(seed)
    few = np.full((len(extents), most), -1, dtype=np.int64)
    for node, extent in enumerate(extents.tolist()):
        drawn = random.permutation(extent)[: int(random.integers(1, most + 1))]
        few[node, : len(drawn)] = drawn
    return few


def test_the_best_of_few_is_that_of_enumeration_unless_a_node_keeps_its_state() -> None:
    free = 0
    for seed in range(60):
        graph = entangled_graph(seed, "none")
        network, links, exact, known = prepared(graph)
        few = some_states(network.extents, 3, seed)
        order = np.arange(len(network.names))
        states, is_best = best_of_few(links, exact, few, order)
        assert all(state in own for state, own in zip(states, few.tolist(), strict=True))
        found = evaluate_choice(graph, network.back(states, known)).cost_ns
        every = itertools.product(*([s for s in own if s >= 0] for own in few.tolist()))
        truth = min(
            evaluate_choice(graph, network.back(np.array(own), known)).cost_ns for own in every
        )
        before = evaluate_choice(graph, network.back(few[:, 0].copy(), known)).cost_ns
        assert truth <= found <= before or found == pytest.approx(before, rel=1e-12)
        if is_best:
            free += 1
            assert found == pytest.approx(truth, rel=1e-12)
    assert 10 <= free <= 50  # both kinds were met


@pytest.mark.parametrize("seed", range(5))
def test_forks_and_joins_need_no_node_to_keep_its_state(seed: int) -> None:
    network, links, exact, _ = prepared(shared_graph(seed, 200))
    few = some_states(network.extents, 4, seed)
    assert best_of_few(links, exact, few, np.arange(len(network.names)))[1]
