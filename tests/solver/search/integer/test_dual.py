from __future__ import annotations

import numpy as np
import pytest

from meshwright_solver.common.deadline import Deadline
from meshwright_solver.search.core.cost_graph import FORBIDDEN, CostEdge, CostGraph, CostNode
from meshwright_solver.search.integer.dual import Dual
from meshwright_solver.search.integer.pairs import pairs_of
from meshwright_solver.search.integer.reductions import NoChoice, reduce
from tests.solver.cost_graphs import brute_force
from tests.solver.entangled_graphs import Memory, entangled_graph

LAST_DIGIT = 4e-16  # sums that reductions make are rounded
FOREVER = Deadline.after(None)


def dual_of(graph: CostGraph) -> Dual | None:
    pairs = pairs_of(graph)
    try:
        reduce(pairs, FOREVER)
    except NoChoice:
        return None
    return Dual(pairs)


@pytest.mark.parametrize("memory", ["none", "always", "lifetimes"])
def test_no_bound_lies_above_the_optimum_at_any_price(memory: Memory) -> None:
    for seed in range(40):
        graph = entangled_graph(seed, memory)
        dual = dual_of(graph)
        if dual is None:
            continue
        truth = brute_force(graph).cost_ns
        limit = graph.memory_limit_bytes or 1.0
        for price in (0.0, 0.1, 3.0):
            scale = 0.0 if memory == "none" else price * dual.magnitude / limit
            dual.price(np.full(dual.pairs.moments, scale / dual.pairs.moments))
            bounds = [dual.improve(1, FOREVER) for _ in range(5)]
            assert bounds == sorted(bounds), seed
            assert bounds[-1] <= truth * (1 + LAST_DIGIT), seed


def test_along_a_tree_the_bound_is_the_optimum_and_so_is_the_choice_read_off() -> None:
    # A star: reductions would take it, messages alone must close it too.
    random = np.random.default_rng(3)
    nodes = tuple(CostNode(f"n{k}", random.integers(0, 9, 3).astype(float)) for k in range(6))
    edges = tuple(CostEdge(0, k, random.integers(0, 9, (3, 3)).astype(float)) for k in range(1, 6))
    graph = CostGraph(nodes, edges)
    dual = Dual(pairs_of(graph))
    least = brute_force(graph).cost_ns
    assert dual.improve(10, FOREVER) == least
    places = dual.decoded()
    assert places is not None
    assert dual.pairs.cost_ns(places) == least


def test_fixing_keeps_every_choice_up_to_the_given_cost() -> None:
    fixed = 0
    for seed in range(60):
        graph = entangled_graph(seed, "always")
        dual = dual_of(graph)
        truth = brute_force(graph).cost_ns
        if dual is None or truth == FORBIDDEN or not dual.pairs.nodes:
            continue
        dual.improve(10, FOREVER)
        fixed += dual.fix(truth)
        reduce(dual.pairs, FOREVER, truth)
    assert fixed > 5
