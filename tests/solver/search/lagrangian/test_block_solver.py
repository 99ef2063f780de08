from __future__ import annotations

import itertools

import numpy as np
import pytest

from meshwright_solver.search.core.cost_graph import CostEdge, CostGraph, CostNode
from meshwright_solver.search.lagrangian.block_plan import plan_block
from meshwright_solver.search.lagrangian.block_solver import held_tables, solve_block
from meshwright_solver.search.lagrangian.memory_profile import cost_of
from meshwright_solver.search.lagrangian.model import PairwiseModel, model_of
from meshwright_solver.search.lagrangian.reductions import adjacency
from meshwright_solver.search.lagrangian.remap import same_nodes


def dense_model(seed: int) -> PairwiseModel:
    """Eight nodes of two or three states, most of them joined."""
    random = np.random.default_rng(seed)
    extents = random.integers(2, 4, 8).tolist()
    nodes = tuple(CostNode(f"n{k}", random.random(size)) for k, size in enumerate(extents))
    edges = tuple(
        CostEdge(a, b, random.random((extents[a], extents[b])))
        for a, b in itertools.combinations(range(8), 2)
        if random.random() < 0.6
    )
    model = model_of(CostGraph(nodes, edges))
    return same_nodes(model).apply(model)


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("most_entries", [3.0, 30.0, 3000.0])
def test_what_is_not_fixed_gets_its_best_states(seed: int, most_entries: float) -> None:
    model = dense_model(seed)
    random = np.random.default_rng([seed, 1])
    block = np.sort(random.permutation(8)[:6]).astype(np.int64)
    around = adjacency(model)
    plan = plan_block(model, *around, block, random.random(6), most_entries)
    assert set(plan.nodes.tolist()) <= set(block.tolist())
    free = np.zeros(8, dtype=np.bool_)
    free[plan.nodes] = True
    states = np.array([int(random.integers(k)) for k in model.extents], dtype=np.int64)
    before = states.copy()
    room = 10_000
    choices = np.empty(room, dtype=np.int16)
    stop = np.zeros(1, dtype=np.int64)
    held = held_tables(model, room)
    assert solve_block(model, model.unary, *around, plan, held, choices, free, states, stop)
    assert states[~free].tolist() == before[~free].tolist()
    least = np.inf
    for own in itertools.product(*(range(model.extents[node]) for node in plan.nodes)):
        trial = before.copy()
        trial[plan.nodes] = own
        least = min(least, cost_of(model, trial))
    assert cost_of(model, states) == pytest.approx(least)


def test_where_tables_may_be_large_nothing_is_fixed() -> None:
    model = dense_model(0)
    block = np.arange(8)
    plan = plan_block(model, *adjacency(model), block, np.ones(8), 1e6)
    assert sorted(plan.nodes.tolist()) == block.tolist()


def test_hubs_of_great_weight_are_fixed_first() -> None:
    # four nodes that are all joined: one of them is fixed where tables have nine entries
    nodes = tuple(CostNode(f"n{k}", np.zeros(3)) for k in range(6))
    joined = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 2), (2, 3), (1, 3)]
    edges = tuple(CostEdge(a, b, np.zeros((3, 3))) for a, b in joined)
    model = model_of(CostGraph(nodes, edges))
    weights = np.array([1e6, 1, 1, 1, 1, 1], dtype=np.float64)
    plan = plan_block(model, *adjacency(model), np.arange(6), weights, 9.0)
    assert 0 not in plan.nodes.tolist()
    assert len(plan.nodes) == 5
