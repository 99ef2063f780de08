"""The greedy order of elimination: smallest resulting table first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from meshwright_solver.search.elimination.eliminator import Eliminator


def greedy(eliminator: Eliminator, nodes: Iterable[int]) -> Iterable[tuple[int, int]]:
    """Yield (node, entries that its elimination needs); the caller eliminates it or stops."""
    current: dict[int, tuple[int, int, int]] = {}
    heap: list[tuple[int, int, int]] = []

    def push(node: int) -> None:
        price = eliminator.price(node)
        entry = (price.entries, price.additions, node)
        if current.get(node) != entry:
            current[node] = entry
            heapq.heappush(heap, entry)

    for node in nodes:
        current[node] = (-1, -1, node)
        push(node)
    while heap:
        entry = heapq.heappop(heap)
        node = entry[2]
        if current.get(node) != entry:
            continue
        del current[node]
        neighbours = eliminator.neighbours(node)
        yield node, entry[0]
        for other in neighbours:
            if other in current:
                push(other)
