"""Searches that prove what they say agree with each other and with enumeration."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.catalogue import EXAMPLES
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.folding.fold import fold
from meshwright_solver.folding.unfold import Unfolding
from meshwright_solver.lowering.lower import lower
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.search.core.cost_graph import (
    FORBIDDEN,
    CostEdge,
    CostGraph,
    CostNode,
    evaluate_choice,
)
from meshwright_solver.search.core.incumbent import SearchStep
from meshwright_solver.search.core.outcome import ChoiceSearch, Outcome, SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.search.integer.integer_program import exact
from meshwright_solver.strategies.mesh_models import Models
from tests.one_stage import one_stage_request
from tests.solver.cost_graphs import brute_force, random_chain, random_graph
from tests.solver.entangled_graphs import Memory, entangled_graph

CLOSE = 1e-12
SEARCHES: tuple[ChoiceSearch, ...] = (dynamic_programming, exact)


def check(graph: CostGraph, search: ChoiceSearch, least_ns: float) -> Outcome:
    """The outcome is the optimum, its numbers are the judge's, and no bound told lies above it."""
    told: list[SearchStep] = []
    outcome = search(graph, SearchBudget(), told.append)
    assert all(progress.lower_bound_ns <= least_ns * (1 + CLOSE) for progress in told)
    if least_ns == FORBIDDEN:
        assert outcome.status == "infeasible"
        assert outcome.choice is None
        return outcome
    assert outcome.status == "optimal"
    assert outcome.cost_ns == pytest.approx(least_ns, rel=CLOSE)
    assert outcome.lower_bound_ns <= outcome.cost_ns
    assert outcome.choice is not None
    found = evaluate_choice(graph, outcome.choice)
    assert (found.cost_ns, found.memory_bytes) == (outcome.cost_ns, outcome.memory_bytes)
    limit = graph.memory_limit_bytes
    assert limit is None or found.memory_bytes <= limit
    return outcome


@pytest.mark.rotating
@pytest.mark.parametrize("batch", range(10))
def test_all_equal_enumeration_on_small_graphs(batch: int) -> None:
    for seed in range(10_000 + 120 * batch, 10_000 + 120 * batch + 120):
        graph = random_graph(seed)
        truth = brute_force(graph)
        for search in SEARCHES:
            outcome = check(graph, search, truth.cost_ns)
            if outcome.minimum_memory_bytes is not None:
                least = truth.minimum_memory_bytes
                assert outcome.minimum_memory_bytes == pytest.approx(least, rel=CLOSE), seed


@pytest.mark.parametrize("memory", ["none", "always"])
@pytest.mark.parametrize("batch", range(2))
def test_all_equal_enumeration_where_nodes_are_entangled(batch: int, memory: Memory) -> None:
    for seed in range(40 * batch, 40 * batch + 40):
        graph = entangled_graph(seed, memory)
        truth = brute_force(graph).cost_ns
        for search in SEARCHES:
            check(graph, search, truth)


@pytest.mark.parametrize("batch", range(2))
def test_exact_equals_enumeration_where_memory_has_lifetimes(batch: int) -> None:
    for seed in range(30 * batch, 30 * batch + 30):
        graph = entangled_graph(seed, "lifetimes")
        check(graph, exact, brute_force(graph).cost_ns)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**9),
    repeats=st.integers(2, 8),
    limit_per_node=st.one_of(st.none(), st.integers(0, 9)),
)
def test_chains_of_equal_blocks_agree(seed: int, repeats: int, limit_per_node: int | None) -> None:
    limit = None if limit_per_node is None else float(limit_per_node * 2 * (repeats + 1))
    graph = random_chain(seed, repeats, limit)
    first, second = (search(graph, SearchBudget()) for search in SEARCHES)
    assert (first.status, first.cost_ns) == (second.status, second.cost_ns)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9), power=st.integers(-40, 49))
def test_scaled_costs_give_scaled_outcomes(seed: int, power: int) -> None:
    """By a power of two nothing is rounded: from costs of 10^-12 ns up to 10^15."""
    graph = random_graph(seed)
    own = graph.nodes[0].cost
    largest = max([1.0, *own[np.isfinite(own)]])
    scale = 2.0**power / largest if largest < 1e6 else 2.0**-40
    scale = 2.0 ** math.floor(math.log2(scale))
    nodes = tuple(CostNode(node.name, node.cost * scale, node.memory) for node in graph.nodes)
    edges = tuple(
        replace(edge, cost=edge.cost * scale) if isinstance(edge, CostEdge) else edge
        for edge in graph.edges
    )
    scaled = replace(graph, nodes=nodes, edges=edges)
    for search in SEARCHES:
        plain, other = search(graph, SearchBudget()), search(scaled, SearchBudget())
        assert plain.status == other.status
        assert other.cost_ns == pytest.approx(plain.cost_ns * scale, rel=CLOSE)


@cache
def lowered(name: str, cluster: str, axes: int) -> CostGraph:
    """An example on the finest mesh of so many axes of a cluster, every layer a node of its own."""
    graph = next(example for example in EXAMPLES if example.name == name).load()
    request = one_stage_request(graph=graph, topology=preset(cluster))
    folding = fold(graph, {})
    problem = build_problem(
        folding.graph, request.topology, request.setup, default_calibration(), 1
    )
    mesh = next(m for m in meshes(request.topology, axes) if len(m.axes) == axes)
    models = Models(problem, find_values(problem), mesh)
    return Unfolding(folding, lower(models, {}, None)).graph


@pytest.mark.parametrize(
    ("name", "cluster", "axes"),
    [("wide-deep", "h100-2x8", 2), ("face-head", "h100-2x8", 2), ("resnet50", "v100-4x8", 2)],
)
def test_real_problems_agree(name: str, cluster: str, axes: int) -> None:
    graph = lowered(name, cluster, axes)
    free = dynamic_programming(graph, SearchBudget())
    other = exact(graph, SearchBudget())
    assert other.status == free.status == "optimal"
    assert other.cost_ns == pytest.approx(free.cost_ns, rel=CLOSE)
    least = dynamic_programming(replace(graph, memory_limit_bytes=0.0), SearchBudget())
    assert exact(replace(graph, memory_limit_bytes=0.0), SearchBudget()).minimum_memory_bytes == (
        pytest.approx(least.minimum_memory_bytes, rel=CLOSE)
    )
    assert least.minimum_memory_bytes is not None
    limit = round(0.5 * (least.minimum_memory_bytes + free.memory_bytes))
    limited = replace(graph, memory_limit_bytes=float(limit))
    tolerance = 1e-3
    ours, theirs = (search(limited, SearchBudget(tolerance=tolerance)) for search in SEARCHES)
    for outcome in (ours, theirs):
        assert outcome.memory_bytes <= limit
        assert outcome.cost_ns - outcome.lower_bound_ns <= tolerance * outcome.cost_ns * (1 + CLOSE)
    assert max(ours.lower_bound_ns, theirs.lower_bound_ns) <= (
        min(ours.cost_ns, theirs.cost_ns) * (1 + CLOSE)
    )
