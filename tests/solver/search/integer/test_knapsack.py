from __future__ import annotations

import math

import numpy as np
import pytest

from meshwright_solver.common.deadline import Deadline
from meshwright_solver.search.core.cost_graph import FORBIDDEN, CostEdge, CostGraph, CostNode
from meshwright_solver.search.integer.dual import Dual
from meshwright_solver.search.integer.knapsack import cheapest
from meshwright_solver.search.integer.pairs import pairs_of
from meshwright_solver.search.integer.reductions import NoChoice
from tests.solver.cost_graphs import brute_force

FOREVER = Deadline.after(None)


def items(seed: int, limit_share: float) -> CostGraph:
    random = np.random.default_rng(seed)
    extents = random.integers(1, 4, 7).tolist()
    nodes = tuple(
        CostNode(f"n{k}", random.integers(0, 50, n).astype(float), random.integers(0, 50, n) * 1.0)
        for k, n in enumerate(extents)
    )
    return CostGraph(nodes, (), float(round(limit_share * 25 * len(nodes))))


@pytest.mark.parametrize("price", [0.0, 0.7])
def test_equals_enumeration(price: float) -> None:
    kinds = set()
    for seed in range(60):
        graph = items(seed, 0.3 + seed / 100)
        truth = brute_force(graph).cost_ns
        dual = Dual(pairs_of(graph))
        dual.price(np.array([price]))
        kinds.add(truth == FORBIDDEN)
        if truth == FORBIDDEN:
            with pytest.raises(NoChoice):
                cheapest(dual, math.inf, FOREVER)
            continue
        for upper in (math.inf, truth):
            places = cheapest(dual, upper, FOREVER)
            assert places is not None
            assert dual.pairs.cost_ns(places) == truth, seed
            assert dual.pairs.profile(places)[0] <= (graph.memory_limit_bytes or 0.0)
    assert kinds == {True, False}


def test_a_hundred_equal_nodes_are_few_partial_choices() -> None:
    cost, memory = np.array([1.0, 5.0]), np.array([3.0, 1.0])
    graph = CostGraph(tuple(CostNode(f"n{k}", cost, memory) for k in range(100)), (), 200.0)
    dual = Dual(pairs_of(graph))
    places = cheapest(dual, math.inf, FOREVER)
    assert places is not None
    # 200 bytes let 50 of them take 3 bytes
    assert dual.pairs.cost_ns(places) == 50 * 1.0 + 50 * 5.0


def test_nodes_that_depend_on_each_other_are_not_its_business() -> None:
    node = CostNode("n", np.zeros(2), np.ones(2))
    graph = CostGraph((node, node), (CostEdge(0, 1, np.eye(2)),), 9.0)
    assert cheapest(Dual(pairs_of(graph)), math.inf, FOREVER) is None
