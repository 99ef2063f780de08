"""Small random cost graphs whose memory counts only within lifetimes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from meshwright_solver.search.core.cost_graph import CostGraph
from tests.solver.cost_graphs import random_graph


def random_timed_graph(seed: int) -> CostGraph:
    """A random_graph() with lifetimes, of which some are empty, and a limit that binds often."""
    graph = random_graph(seed)
    random = np.random.default_rng([seed, 1])
    starts = random.integers(0, 6, len(graph.nodes))
    lifetimes = np.stack([starts, starts + random.integers(0, 5, len(starts))], axis=1)
    limit = None if random.random() < 0.1 else float(random.integers(0, 6 * len(starts)))
    return replace(graph, memory_limit_bytes=limit, lifetimes=lifetimes.astype(np.int64))
