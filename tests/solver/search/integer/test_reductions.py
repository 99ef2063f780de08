from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from meshwright_solver.common.deadline import Deadline
from meshwright_solver.search.core.cost_graph import (
    FORBIDDEN,
    CostEdge,
    CostGraph,
    CostNode,
    evaluate_choice,
)
from meshwright_solver.search.integer.pairs import Pairs, pairs_of
from meshwright_solver.search.integer.reductions import NoChoice, reduce
from tests.solver.cost_graphs import brute_force, random_graph
from tests.solver.entangled_graphs import Memory, entangled_graph

FOREVER = Deadline.after(None)


def least_left(graph: CostGraph, pairs: Pairs, upper_ns: float = math.inf) -> float:
    """The least cost within the limit over the choices that are left, by the judge.

    Up to `upper_ns` the pairs price every choice as the judge does.
    """
    limit = math.inf if graph.memory_limit_bytes is None else graph.memory_limit_bytes
    nodes = sorted(pairs.nodes)
    least = FORBIDDEN
    for places in itertools.product(*(range(len(pairs.states[node])) for node in nodes)):
        choice = dict(zip(nodes, places, strict=True))
        found = evaluate_choice(graph, pairs.expanded(choice))
        if found.memory_bytes <= limit:
            least = min(least, found.cost_ns)
            if found.cost_ns < FORBIDDEN and found.cost_ns <= upper_ns:
                assert pairs.cost_ns(choice) == pytest.approx(found.cost_ns, rel=1e-12)
                if graph.memory_limit_bytes is not None:
                    profile = pairs.profile(choice).max()
                    assert profile == pytest.approx(found.memory_bytes, rel=1e-12, abs=1e-9)
    return least


@pytest.mark.parametrize("batch", range(3))
def test_the_optimum_is_kept_with_and_without_memory_and_lifetimes(batch: int) -> None:
    smaller = 0
    for seed in range(60 * batch, 60 * batch + 60):
        kinds: tuple[Memory, ...] = ("none", "always", "lifetimes")
        graph = random_graph(seed) if seed % 2 else entangled_graph(seed, kinds[seed % 3])
        pairs = pairs_of(graph)
        try:
            reduce(pairs, FOREVER)
        except NoChoice:
            assert brute_force(graph).cost_ns == FORBIDDEN, seed
            continue
        smaller += len(pairs.nodes) < len(graph.nodes)
        assert least_left(graph, pairs) == pytest.approx(brute_force(graph).cost_ns, rel=1e-12)
    assert smaller > 20


@pytest.mark.parametrize("batch", range(2))
def test_choices_up_to_the_given_cost_are_kept(batch: int) -> None:
    for seed in range(40 * batch, 40 * batch + 40):
        graph = random_graph(seed)
        truth = brute_force(graph).cost_ns
        if truth == FORBIDDEN:
            continue
        pairs = pairs_of(graph)
        reduce(pairs, FOREVER, truth)
        assert least_left(graph, pairs, truth) == pytest.approx(truth), seed
        if truth > 0:
            with pytest.raises(NoChoice):
                reduce(pairs_of(graph), FOREVER, -1.0)


def test_a_chain_without_memory_is_eliminated_whole() -> None:
    table = np.random.default_rng(0).random((4, 4))
    nodes = tuple(CostNode(f"n{k}", np.zeros(4)) for k in range(30))
    pairs = pairs_of(CostGraph(nodes, tuple(CostEdge(k, k + 1, table) for k in range(29))))
    reduce(pairs, FOREVER)
    assert not pairs.nodes


def test_a_state_that_costs_and_takes_more_goes_but_not_one_that_takes_less() -> None:
    # State 1 costs more and takes less than state 0, state 2 is worse than 0 in both.
    node = CostNode("n", np.array([1.0, 5.0, 2.0]), np.array([4.0, 1.0, 4.5]))
    other = CostNode("m", np.zeros(2), np.array([0.0, 1.0]))
    edge = CostEdge(0, 1, np.array([[0.0, 9.0], [9.0, 0.0], [1.0, 9.0]]))
    pairs = pairs_of(CostGraph((node, other), (edge,), 5.0))
    reduce(pairs, FOREVER)
    assert pairs.states[0].tolist() == [0, 1]


def test_repeats_share_what_is_derived_from_shared_arrays() -> None:
    random = np.random.default_rng(1)
    # a third state that no table allows: all nodes and edges are cut down to two
    table = random.random((3, 3))
    table[2, :] = table[:, 2] = FORBIDDEN
    cost, memory = random.random(3), np.array([1.0, 2.0, 3.0])
    count = 12
    nodes = tuple(CostNode(f"n{k}", cost, memory) for k in range(count))
    edges = tuple(CostEdge(k, (k + 1) % count, table) for k in range(count - 1))
    far = tuple(CostEdge(k, k + 3, table) for k in range(count - 3))
    pairs = pairs_of(CostGraph(nodes, edges + far, 100.0))
    reduce(pairs, FOREVER)
    arrays = {id(edge.cost) for edge in pairs.edges.values()}
    assert len(pairs.edges) > 3 * len(arrays)
