"""The order of elimination: smallest resulting table first, repeated blocks alike.

One block of each run is ordered on its own, boundary left standing; the others follow it step by
step, so that their tables are the same tables. What then remains, boundaries and whatever is in no
run, goes greedily: a chain of boundaries shrinks from its ends, a vector and one matrix at a time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass

from solver.cost_graph import CostGraph
from solver.elimination.eliminator import Eliminator, Step, TableTooLarge
from solver.elimination.repeats import Run, find_runs
from solver.elimination.tables import Leaf, Select, TableRegistry

_BLOCK_ENTRIES = (
    4_000_000  # chosen: a block that needs more may be cheaper from the ends of its run
)


@dataclass(frozen=True, slots=True)
class Program:
    """Steps in order of elimination; the tables without axes, `constants`, add up to the value."""

    graph: CostGraph
    registry: TableRegistry
    steps: tuple[Step, ...]
    constants: tuple[int, ...]

    def entries(self) -> int:
        """Numbers that one solution holds; leaves without memory are the graph's own arrays."""
        registry = self.registry
        return sum(
            math.prod(shape)
            for shape, definition, has_memory in zip(
                registry.shapes, registry.definitions, registry.has_memory, strict=True
            )
            if has_memory or not isinstance(definition, Leaf | Select)
        )


def elimination_program(graph: CostGraph, max_table_entries: int) -> Program:
    """Raises TableTooLarge where the order found needs a table of more entries."""
    registry = TableRegistry()
    eliminator = Eliminator(graph, registry)
    left = dict.fromkeys(range(len(graph.nodes)))
    for run in find_runs(graph):
        _eliminate_blocks(eliminator, run, left, min(_BLOCK_ENTRIES, max_table_entries))
    for node, entries in _greedy(eliminator, left):
        if entries > max_table_entries:
            what = f'eliminating node "{graph.nodes[node].name}"'
            raise TableTooLarge(what, entries, max_table_entries)
        eliminator.eliminate(node)
    return Program(graph, registry, tuple(eliminator.steps), tuple(eliminator.constants))


def _eliminate_blocks(
    eliminator: Eliminator, run: Run, left: dict[int, None], max_entries: int
) -> None:
    model = run.repeats // 2
    order: list[int] = []
    for node, entries in _greedy(eliminator, run.interior(model)):
        if entries > max_entries:
            break
        eliminator.eliminate(node)
        order.append(node)
    for repeat in range(run.repeats):
        shift = (repeat - model) * run.period
        for node in order:
            if repeat != model:
                if eliminator.price(node + shift).entries > max_entries:
                    break
                eliminator.eliminate(node + shift)
            del left[node + shift]


def _greedy(eliminator: Eliminator, nodes: Iterable[int]) -> Iterable[tuple[int, int]]:
    """(node, entries its elimination needs); the caller eliminates it or stops."""
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
