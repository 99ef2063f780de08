"""Small random cost graphs in which nearly all nodes meet: cycles, so that bounds by messages leave
a gap and an integer program is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.search.core.cost_graph import (
    FORBIDDEN,
    CostEdge,
    CostGraph,
    CostNode,
    Projection,
    evaluate_choice,
)

Memory = Literal["none", "always", "lifetimes"]


def entangled_graph(seed: int, memory: Memory) -> CostGraph:
    """Four to six nodes of two or three states; costs up to 20, 10^4 or 10^15, some forbidden.

    The limit is one that some random choices keep.
    """
    random = np.random.default_rng(seed)
    extents = random.integers(2, 4, random.integers(4, 7)).tolist()
    largest = float(random.choice([20.0, 1e4, 1e15]))
    bytes_up_to = float(random.choice([10.0, 1e10]))
    whole = random.random() < 0.6
    forbidden = float(random.choice([0.0, 0.1]))

    def drawn(up_to: float, *shape: int) -> FloatArray:
        values: FloatArray = random.random(shape) * up_to
        return np.floor(values) if whole else values

    def cost(*shape: int) -> FloatArray:
        values = drawn(largest, *shape)
        values[random.random(shape) < forbidden] = FORBIDDEN
        return values

    nodes = tuple(CostNode(f"n{k}", cost(k), drawn(bytes_up_to, k)) for k in extents)
    edges: list[CostEdge | Projection] = []
    for a, first in enumerate(extents):
        for b, second in list(enumerate(extents))[a + 1 :]:
            kind = random.random()
            if kind < 0.3:
                edges.append(CostEdge(a, b, cost(first, second), drawn(bytes_up_to, first, second)))
            elif kind < 0.65:
                edges.append(CostEdge(b, a, cost(second, first)))
    if random.random() < 0.4:
        a, b = random.choice(len(extents), 2, replace=False).tolist()
        edges.append(CostEdge.projection(a, b, random.integers(0, extents[b], extents[a])))
    lifetimes = None
    if memory == "lifetimes":
        starts = random.integers(0, 6, len(extents))
        lifetimes = np.stack([starts, starts + random.integers(0, 5, len(extents))], axis=1)
    graph = CostGraph(nodes, tuple(edges), None, lifetimes=lifetimes)
    if memory == "none":
        return graph
    taken = [evaluate_choice(graph, random.integers(0, extents)).memory_bytes for _ in range(30)]
    limit = np.ceil(np.quantile(taken, random.choice([0.02, 0.1, 0.3, 0.6])))
    # where numbers are no whole ones, no choice lies within rounding of the limit
    return replace(graph, memory_limit_bytes=float(limit) + (0.0 if whole else 0.5))
