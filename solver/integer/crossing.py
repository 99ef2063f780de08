"""Two choices crossed: the nodes before a cut as in one, those from it on as in the other.

All cuts are priced at once: a node or pair changes what it adds where the cut passes it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solver.cost_graph import FloatArray
from solver.integer.pairs import Life, Pairs, Table


def crossed(pairs: Pairs, first: dict[int, int], second: dict[int, int]) -> dict[int, int] | None:
    """The cheapest of all cuts within the limit, None where there is none."""
    order = sorted(pairs.nodes)
    rank = {node: place for place, node in enumerate(order)}
    cost = np.zeros(len(order) + 1)
    forbidden = np.zeros(len(order) + 1)
    memory: dict[Life, FloatArray] = {}

    def add(table: Table, ranks: tuple[int, ...], places: Sequence[tuple[int, ...]]) -> None:
        """places: before the cut reaches it, as it passes each end."""
        bounds = [0, *(rank + 1 for rank in ranks), len(order) + 1]
        for place, start, stop in zip(places, bounds, bounds[1:], strict=False):
            value = table.cost[place]
            if np.isinf(value):
                forbidden[start] += 1
                forbidden[stop:][:1] -= 1
            else:
                cost[start] += value
                cost[stop:][:1] -= value
            for life, array in table.memory.items():
                own = memory.setdefault(life, np.zeros(len(order) + 1))
                own[start] += array[place]
                own[stop:][:1] -= array[place]

    for node, table in pairs.nodes.items():
        add(table, (rank[node],), [(second[node],), (first[node],)])
    for (a, b), table in pairs.edges.items():
        ends = [(second[a], second[b]), (first[a], second[b]), (first[a], first[b])]
        add(table, (rank[a], rank[b]), ends)
    total = np.where(np.cumsum(forbidden) > 0.5, np.inf, np.cumsum(cost))
    if pairs.limit_bytes is not None:
        for moment in range(pairs.moments):
            taken = sum(
                (np.cumsum(own) for life, own in memory.items() if life[0] <= moment < life[1]),
                np.zeros(len(order) + 1),
            )
            fixed = [
                part
                for life, parts in pairs.constant_bytes.items()
                if life[0] <= moment < life[1]
                for part in parts
            ]
            total[taken + sum(fixed) > pairs.limit_bytes] = np.inf
    cut = int(total.argmin())
    if total[cut] == np.inf:
        return None
    return {node: (first if rank[node] < cut else second)[node] for node in order}
