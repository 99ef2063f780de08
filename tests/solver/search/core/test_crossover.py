from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright_solver.search.core.cost_graph import FORBIDDEN, CostGraph, CostNode, evaluate_choice
from meshwright_solver.search.core.crossover import crossed
from tests.solver.cost_graphs import random_chain, random_graph


def allowed_choices(graph: CostGraph, seed: int, wanted: int) -> list[np.ndarray]:
    """Some choices that take nothing forbidden."""
    random = np.random.default_rng(seed)
    drawn = (random.integers(graph.extents) for _ in range(2000))
    found = [own for own in drawn if evaluate_choice(graph, own).cost_ns < FORBIDDEN]
    return found[:wanted]


@pytest.mark.parametrize("batch", range(2))
def test_equals_the_cheapest_of_all_cuts_one_by_one(batch: int) -> None:
    tried = 0
    for seed in range(60 * batch, 60 * batch + 60):
        graph = random_graph(seed) if seed % 2 else random_chain(seed, 2, 60.0)
        for before, behind in zip(*[iter(allowed_choices(graph, seed, 4))] * 2, strict=False):
            tried += 1
            limit = np.inf if graph.memory_limit_bytes is None else graph.memory_limit_bytes
            cuts = [
                evaluate_choice(graph, np.concatenate([before[:cut], behind[cut:]]))
                for cut in range(len(graph.nodes) + 1)
            ]
            least = min(
                (own.cost_ns for own in cuts if own.memory_bytes <= limit), default=FORBIDDEN
            )
            found = crossed(graph, before, behind, np.inf)
            if found is None:
                assert least == FORBIDDEN
            else:
                assert evaluate_choice(graph, found).cost_ns == pytest.approx(least)
    assert tried > 40


def test_as_many_change_their_mind_as_the_limit_lets() -> None:
    # ten nodes: state 0 is free and takes 3 bytes, state 1 costs 5 and takes 1
    node = CostNode("n", np.array([0.0, 5.0]), np.array([3.0, 1.0]))
    graph = CostGraph((node,) * 10, (), 17.0)
    cheap, lean = np.zeros(10, dtype=np.int64), np.ones(10, dtype=np.int64)
    found = crossed(graph, cheap, lean, np.inf)
    assert found is not None
    # three may take 3 bytes: 9 + 7 = 16
    assert found.tolist() == [0] * 3 + [1] * 7
    # seven of 5 are of use where 36 would be, not where 35 are had already
    assert crossed(graph, cheap, lean, 36.0) is not None
    assert crossed(graph, cheap, lean, 35.0) is None
    assert crossed(replace(graph, memory_limit_bytes=9.0), cheap, lean, np.inf) is None
