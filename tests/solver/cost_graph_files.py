"""Cost graphs of files for tests: small ones worked by hand, random ones, and brute force."""

from __future__ import annotations

import copy
import itertools
import math
from typing import Any

import numpy as np

from meshwright.schema.cost_graph import CostGraphFile

# Two nodes that are live together at time 1 only. Of the four pairs (0, 0) is forbidden, (0, 1)
# costs 1 + 20 + 5 = 26, (1, 0) costs 2 + 10 + 3 = 15 and (1, 1) costs 2 + 20 + 0 = 22. At time 1
# they use 1 + 2 = 3, 6 + 5 = 11 and 6 + 2 = 8.
TWO_NODES: dict[str, Any] = {
    "name": "two nodes",
    "nodes": {
        "intervals": [[0, 2], [1, 3]],
        "costs": [[1, 2], [10, 20]],
        "usages": [[1, 6], [5, 2]],
    },
    "edges": {"nodes": [[0, 1]], "costs": [[10**18, 5, 3, 0]]},
    "usage_limit": 11,
}

# The example in the README of the contest. From time 50 to 70 nodes 0, 1 and 2 are live: they use
# 10 + 25 + 15 = 50 of 50, or 55 with strategy 1 of node 2, which is therefore out. Then node 2
# takes 0 (25, and 50 and 60 on its edges: 135) or 2 (35 + 40 + 30 = 105). Nodes 1 and 3 with edges
# (0, 1), (1, 3), (3, 4):
#     (0, 0): 55 + 85 + 30 + 90 + 70 = 330        (0, 1): 55 + 75 + 30 + 10 + 60 = 230
#     (1, 0): 65 + 85 + 40 + 20 + 70 = 280        (1, 1): 65 + 75 + 40 + 80 + 60 = 320
# Nodes 0 and 4 cost 15 + 95 = 110. The least is 110 + 105 + 230 = 445, by [0, 0, 2, 1, 0].
CONTEST_EXAMPLE: dict[str, Any] = {
    "name": "example",
    "nodes": {
        "intervals": [[30, 70], [40, 70], [50, 120], [110, 140], [110, 150]],
        "costs": [[15], [55, 65], [25, 45, 35], [85, 75], [95]],
        "usages": [[10], [25, 25], [15, 20, 15], [10, 10], [15]],
    },
    "edges": {
        "nodes": [[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]],
        "costs": [
            [30, 40],
            [50, 10, 40],
            [90, 10, 20, 80],
            [60, 20, 30],
            [70, 60],
        ],
    },
    "usage_limit": 50,
}


def file_of(problem: dict[str, Any], **changes: Any) -> CostGraphFile:
    return CostGraphFile.from_dict({"problem": {**copy.deepcopy(problem), **changes}})


def random_problem(seed: int) -> dict[str, Any]:
    """One to six nodes of one to four strategies: parallel edges, forbidden entries, limits that
    nothing keeps, costs that are not whole, several components."""
    random = np.random.default_rng([seed, 24])
    count = int(random.integers(1, 7))
    strategies = random.integers(1, 5, count).tolist()
    whole = random.random() < 0.7

    def drawn(size: int, forbidden: float) -> list[float]:
        values = random.random(size) * 100
        values = np.floor(values) if whole else values
        values[random.random(size) < forbidden] = 1e18
        return [float(value) for value in values]

    starts = random.integers(0, 5, count)
    ends = starts + random.integers(0, 4, count)
    pairs = []
    for _ in range(int(random.integers(0, 2 * count)) if count > 1 else 0):
        pairs.append([int(node) for node in random.choice(count, 2, replace=False)])
    return {
        "nodes": {
            "intervals": np.stack([starts, ends], axis=1).tolist(),
            "costs": [drawn(k, 0.05) for k in strategies],
            "usages": [[float(value) for value in random.integers(0, 9, k)] for k in strategies],
        },
        "edges": {
            "nodes": pairs,
            "costs": [drawn(strategies[a] * strategies[b], 0.1) for a, b in pairs],
        },
        "usage_limit": None if random.random() < 0.2 else int(random.integers(0, 5 * count)),
    }


def least_cost(problem: dict[str, Any]) -> float:
    """By enumeration and the definition, time by time; infinite where nothing is within the limit.

    It shares no code with the solver.
    """
    nodes, edges = problem["nodes"], problem["edges"]
    limit = math.inf if problem["usage_limit"] is None else problem["usage_limit"]
    strategies = [len(costs) for costs in nodes["costs"]]
    times = range(max((end for _, end in nodes["intervals"]), default=0))
    least = math.inf
    for choice in itertools.product(*map(range, strategies)):
        parts = [nodes["costs"][n][s] for n, s in enumerate(choice)]
        for (a, b), costs in zip(edges["nodes"], edges["costs"], strict=True):
            parts.append(costs[choice[a] * strategies[b] + choice[b]])
        used = [
            sum(
                nodes["usages"][n][s]
                for n, s in enumerate(choice)
                if nodes["intervals"][n][0] <= time < nodes["intervals"][n][1]
            )
            for time in times
        ]
        if max(parts) < 1e17 and max(used, default=0) <= limit:
            least = min(least, math.fsum(parts))
    return least
