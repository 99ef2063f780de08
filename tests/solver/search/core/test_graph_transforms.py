from __future__ import annotations

import numpy as np
import pytest

from meshwright_solver.search.core.cost_graph import FORBIDDEN, evaluate_choice
from meshwright_solver.search.core.graph_transforms import memory_as_cost, without_costs
from tests.solver.cost_graphs import random_chain, random_graph


def test_costs_are_the_memories_and_forbidden_stays_forbidden() -> None:
    for seed in range(60):
        graph = random_graph(seed)
        leaning, free = memory_as_cost(graph), without_costs(graph)
        random = np.random.default_rng(seed)
        for _ in range(10):
            choice = random.integers(0, graph.extents)
            found = evaluate_choice(graph, choice)
            is_forbidden = found.cost_ns == FORBIDDEN
            taken = evaluate_choice(leaning, choice)
            expected = FORBIDDEN if is_forbidden else found.memory_bytes
            assert taken.cost_ns == pytest.approx(expected, rel=1e-12)
            kept = evaluate_choice(free, choice)
            assert kept.cost_ns == (FORBIDDEN if is_forbidden else 0.0)
            assert kept.memory_bytes == found.memory_bytes


def test_repeats_still_share_their_arrays() -> None:
    graph = random_chain(3, 6, 50.0)
    for made in (memory_as_cost(graph), without_costs(graph)):
        ours = len({id(node.cost) for node in made.nodes})
        assert ours == len({(id(node.cost), id(node.memory)) for node in graph.nodes})
