"""One axis: a middle copy weighs as all that it stands for, and any limit is kept."""

from __future__ import annotations

import numpy as np
import pytest

from bench.mindspore_models import gpt
from meshwright.schema import Mesh, Setup
from meshwright_costmodel.calibrations import half_exposed_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.folding.fold import KEPT, Folding, Item, fold
from meshwright_solver.folding.kept_copies import items_of
from meshwright_solver.folding.unfold import Unfolding
from meshwright_solver.lowering.lower import Lowered, lower
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.search.core.cost_graph import CostGraph, CostNode, evaluate_choice
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.stage.heuristics.axis_search import AxisSearch
from meshwright_solver.strategies.mesh_models import Models

LAYERS = 12


@pytest.fixture(scope="module")
def folded() -> tuple[Folding, Lowered]:
    devices = preset("h100-8x8")
    folding = fold(gpt(layers=LAYERS, hidden=4096, heads=32).graph, {})
    # traffic that costs next to nothing would make the cheapest choice the smallest one
    problem = build_problem(folding.graph, devices, Setup(), half_exposed_calibration(), 1)
    axis = meshes(devices, 2)[0].axes[0]
    models = Models(problem, find_values(problem), Mesh(axes=(axis,)))
    return folding, lower(models, {}, None)


def test_the_middle_weighs_as_all_copies_that_it_stands_for(
    folded: tuple[Folding, Lowered],
) -> None:
    folding, lowered = folded
    assert LAYERS > KEPT
    unfolding = Unfolding(folding, lowered)
    graph = AxisSearch(folding, lowered).graph(1e15)
    random = np.random.default_rng(0)
    nodes_of: dict[Item, list[int]] = {}
    for node, item in enumerate(items_of(lowered)):
        nodes_of.setdefault(item, []).append(node)
    for _ in range(5):
        # a best choice under other prices: it takes no forbidden state or pair
        drawn = tuple(
            CostNode(node.name, node.cost + random.random(len(node.cost)) * 1e9)
            for node in lowered.graph.nodes
        )
        choice = dynamic_programming(CostGraph(drawn, lowered.graph.edges), SearchBudget()).choice
        assert choice is not None
        for first, *others in folding.alike:
            for other in others:
                choice[nodes_of.get(other, [])] = choice[nodes_of.get(first, [])]
        whole = np.empty(len(unfolding.graph.nodes), dtype=np.int64)
        for node, state in enumerate(choice.tolist()):
            whole[unfolding.places(node)] = state
        own, all_copies = evaluate_choice(graph, choice), evaluate_choice(unfolding.graph, whole)
        assert own.memory_bytes == pytest.approx(all_copies.memory_bytes)
        assert own.cost_ns == pytest.approx(all_copies.cost_ns)
        assert own.cost_ns < np.inf


def test_any_limit_is_kept_near_the_least_cost(folded: tuple[Folding, Lowered]) -> None:
    folding, lowered = folded
    search = AxisSearch(folding, lowered)
    free = evaluate_choice(search.graph(1e15), search.cheapest(1e15))
    least = dynamic_programming(search.graph(0.0), SearchBudget()).minimum_memory_bytes
    assert least is not None
    assert free.memory_bytes > 1.1 * least
    for share in (0.02, 0.3, 0.7):
        limit = least + share * (free.memory_bytes - least)
        graph = search.graph(limit)
        choice = search.cheapest(limit)
        assert choice is not None
        found = evaluate_choice(graph, choice)
        assert found.memory_bytes <= limit
        best = dynamic_programming(graph, SearchBudget(tolerance=1e-3))
        assert best.lower_bound_ns <= found.cost_ns <= best.cost_ns * 1.01
    assert search.cheapest(0.99 * least) is None
