"""Conflicts of seeds: the edge where their layouts disagree, and its cost.

Two seeds a and b on a path of ops and values are in conflict if both together need more
redistribution of values on it than the sum of each alone:

    extra = D(a and b) - D(a) - D(b) + D(neither)  >  0

D is the least forward redistribution on that path if all other ops on it are free, even repeated on
every device. Partial sums do not count: they have to be reduced in any case. So consecutive column
and row cuts are no conflict, and rows that have to be gathered for columns are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

import numpy as np

from meshwright.schema import Layout
from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.search.core.cost_graph import FORBIDDEN, CostGraph
from meshwright_solver.stage.heuristics.propagation.relayouts import Meeting, costliest
from meshwright_solver.stage.heuristics.propagation.tables import message

LEAST_EXTRA = 1e-9  # chosen: of the need of both; less is rounding


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two ops whose given strategies conflict. path: the ops that connect them, both included.

    tensor is in the first layout and is needed in the second; its redistribution takes
    redistribution_ns a step, both ways. extra_ns: the forward redistribution that both need
    together beyond the sum of each alone.
    """

    first: str
    second: str
    path: tuple[str, ...]
    tensor: str
    layouts: tuple[Layout, Layout]
    redistribution_ns: float
    extra_ns: float

    def __str__(self) -> str:
        way = " -> ".join(_shortened(self.path))
        return (
            f"the strategies of {self.first!r} and {self.second!r} do not go together: on the way "
            f"{way} the tensor {self.tensor!r} goes from {self.layouts[0]} to {self.layouts[1]} "
            f"({self.redistribution_ns / 1e3:.1f} µs a step); together they need "
            f"{self.extra_ns / 1e3:.1f} µs more of it forward than each by itself"
        )


def conflicts(allowed: Mapping[int, FloatArray], meeting: Meeting) -> tuple[Conflict, ...]:
    """The conflicts between seeds, by cost.

    allowed: seed -> 0 for its given states, infinite elsewhere. meeting: the graph in which seeds
    are free, and the final states of its nodes.
    """
    free = meeting.lowered.graph
    chains = _Chains(meeting, allowed)
    conflict_of: dict[tuple[int, int], Conflict] = {}
    for path in _paths(free, chains.around, sorted(allowed)):
        ends = (path[0][0], path[-1][0])
        extra = chains.extra(path)
        if extra <= 0:
            continue
        at = costliest(meeting, [edge for _, edge in path[:-1]])
        if at is None:
            continue
        names = [meeting.op_name(node) for node, _ in path]
        conflict = Conflict(
            meeting.name(ends[0]),
            meeting.name(ends[1]),
            tuple(name for name in names if name is not None),
            at.tensor,
            at.layouts,
            at.ns,
            float(extra),
        )
        if (
            ends not in conflict_of
            or conflict_of[ends].redistribution_ns < conflict.redistribution_ns
        ):
            conflict_of[ends] = conflict
    return tuple(sorted(conflict_of.values(), key=lambda item: -item.extra_ns))


Path = Sequence[tuple[int, int]]  # nodes, each with the edge to the next; -1 behind the last


def _paths(
    graph: CostGraph, around: Sequence[Sequence[int]], seeds: Sequence[int]
) -> Iterator[Path]:
    """For every edge where the regions of two seeds meet, the path between these seeds."""
    seed_of: dict[int, int] = {seed: seed for seed in seeds}
    came_by: dict[int, int] = {}
    waiting = deque(seeds)
    while waiting:
        node = waiting.popleft()
        for edge in around[node]:
            other = _other(graph, edge, node)
            if other not in seed_of:
                seed_of[other] = seed_of[node]
                came_by[other] = edge
                waiting.append(other)

    def path_from(node: int) -> list[tuple[int, int]]:
        """The path from a node back to its seed."""
        steps = [(node, -1)]
        while node in came_by:
            edge = came_by[node]
            node = _other(graph, edge, node)
            steps[-1] = (steps[-1][0], edge)
            steps.append((node, -1))
        return steps

    for edge, link in enumerate(graph.edges):
        ends = [seed_of.get(link.tail), seed_of.get(link.head)]
        if None in ends or ends[0] == ends[1]:
            continue
        first, second = path_from(link.tail), path_from(link.head)
        if seed_of[link.tail] > seed_of[link.head]:
            first, second = second, first
        nodes = [node for node, _ in first[::-1]] + [node for node, _ in second]
        edges = [e for _, e in first[-2::-1]] + [edge] + [e for _, e in second]
        yield list(zip(nodes, edges, strict=True))


class _Chains:
    """The least forward redistribution on paths."""

    def __init__(self, meeting: Meeting, allowed: Mapping[int, FloatArray]) -> None:
        self.meeting = meeting
        self.graph = meeting.lowered.graph
        self.allowed = allowed
        self.around: list[list[int]] = [[] for _ in self.graph.nodes]
        for k, edge in enumerate(self.graph.edges):
            self.around[edge.tail].append(k)
            self.around[edge.head].append(k)

    def extra(self, path: Path) -> float:
        """The need of both ends beyond the sum of each alone; 0 where that is rounding."""
        first = self._along(path, self.allowed[path[0][0]])
        free = self._along(path, np.zeros(1))
        last = self.allowed[path[-1][0]]
        both, one, other, neither = (
            float(total.min()) for total in (first + last, first, free + last, free)
        )
        if not isfinite(one + other):
            return 0.0  # a seed that no plan can satisfy
        extra = both - one - other + neither
        return extra if extra > LEAST_EXTRA * both else 0.0

    def _along(self, path: Path, seed_costs: FloatArray) -> FloatArray:
        """The least redistribution for every state of the last node."""
        total = self._start(path[0][0]) + seed_costs
        for (_, k), (node, _) in pairwise(path):
            edge = self.meeting.forward(k)
            total = message(edge, edge.tail == node, total, len(self.graph.nodes[node].cost))
            total = total + self._start(node)
        return total

    def _start(self, node: int) -> FloatArray:
        """Zero for every allowed state."""
        cost = self.graph.nodes[node].cost
        return np.where(np.isfinite(cost), 0.0, FORBIDDEN)


def _other(graph: CostGraph, edge: int, node: int) -> int:
    link = graph.edges[edge]
    return link.head if link.tail == node else link.tail


def _shortened(path: Sequence[str]) -> list[str]:
    """A long path, shortened to its ends."""
    return [*path] if len(path) <= 8 else [*path[:3], f"{len(path) - 6} ops", *path[-3:]]
