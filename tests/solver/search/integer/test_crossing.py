from __future__ import annotations

import numpy as np

from meshwright_solver.search.integer.crossing import crossed
from meshwright_solver.search.integer.pairs import pairs_of
from tests.solver.entangled_graphs import entangled_graph


def test_the_cheapest_cut_within_the_limit_by_trying_all() -> None:
    kinds = set()
    for seed in range(400):
        graph = entangled_graph(seed, "lifetimes" if seed % 2 else "always")
        pairs = pairs_of(graph)
        random = np.random.default_rng(seed)
        first, second = (
            {node: int(random.integers(0, len(states))) for node, states in pairs.states.items()}
            for _ in range(2)
        )
        if not all(pairs.cost_ns(choice) < np.inf for choice in (first, second)):
            continue
        cuts = [
            {node: (first if node < cut else second)[node] for node in pairs.nodes}
            for cut in range(len(pairs.nodes) + 1)
        ]
        limit = graph.memory_limit_bytes
        assert limit is not None
        within = [
            pairs.cost_ns(choice)
            for choice in cuts
            if pairs.profile(choice).max() <= limit and pairs.cost_ns(choice) < np.inf
        ]
        found = crossed(pairs, first, second)
        kinds.add(found is None)
        if found is None:
            assert not within, seed
        else:
            assert found in cuts
            assert np.isclose(pairs.cost_ns(found), min(within), rtol=1e-12, atol=0.0), seed
    assert kinds == {True, False}
