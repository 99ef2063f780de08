"""Seeds that do not go together: where their layouts meet, and what that costs.

Two seeds a and b that some way of ops and values connects are in conflict where both need more
redistribution of values on it than each by itself adds up to:

    extra = D(a and b) - D(a) - D(b) + D(neither)  >  0

with D the least forward redistribution on that way when all other ops on it may be anything, done
whole on every device too. Partial sums do not count: they have to be reduced anyway. So column and
row cuts one behind the other are no conflict, and rows that have to be gathered for columns are.
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

LEAST_EXTRA = 1e-9  # chosen: of what both need; less is rounding


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two ops whose given strategies clash. path: the ops that connect them, both included.

    tensor lies in the first layout and is needed in the second; moving it costs redistribution_ns
    a step, both ways. extra_ns: the forward redistribution that both need together beyond what each
    needs by itself.
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
    """The conflicts between seeds, by what they cost.

    allowed: seed -> 0 where a state of it is given, infinite elsewhere. meeting: the graph in which
    seeds may be anything, and the states that its nodes have in the end.
    """
    free = meeting.lowered.graph
    chains = _Chains(meeting, allowed)
    found: dict[tuple[int, int], Conflict] = {}
    for path in _paths(free, chains.around, sorted(allowed)):
        ends = (path[0][0], path[-1][0])
        extra = chains.extra(path)
        if extra <= 0:
            continue
        at = costliest(meeting, [edge for _, edge in path[:-1]])
        if at is None:
            continue
        names = [meeting.op_name(node) for node, _ in path]
        own = Conflict(
            meeting.name(ends[0]),
            meeting.name(ends[1]),
            tuple(name for name in names if name is not None),
            at.tensor,
            at.layouts,
            at.ns,
            float(extra),
        )
        if ends not in found or found[ends].redistribution_ns < own.redistribution_ns:
            found[ends] = own
    return tuple(sorted(found.values(), key=lambda own: -own.extra_ns))


Path = Sequence[tuple[int, int]]  # nodes, each with the edge to the next; -1 behind the last


def _paths(
    graph: CostGraph, around: Sequence[Sequence[int]], seeds: Sequence[int]
) -> Iterator[Path]:
    """For every edge where the surroundings of two seeds meet, the way between these."""
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

    def way(node: int) -> list[tuple[int, int]]:
        """From a node back to its seed."""
        found = [(node, -1)]
        while node in came_by:
            edge = came_by[node]
            node = _other(graph, edge, node)
            found[-1] = (found[-1][0], edge)
            found.append((node, -1))
        return found

    for edge, own in enumerate(graph.edges):
        ends = [seed_of.get(own.tail), seed_of.get(own.head)]
        if None in ends or ends[0] == ends[1]:
            continue
        first, second = way(own.tail), way(own.head)
        if seed_of[own.tail] > seed_of[own.head]:
            first, second = second, first
        nodes = [node for node, _ in first[::-1]] + [node for node, _ in second]
        edges = [e for _, e in first[-2::-1]] + [edge] + [e for _, e in second]
        yield list(zip(nodes, edges, strict=True))


class _Chains:
    """The least forward redistribution on ways."""

    def __init__(self, meeting: Meeting, allowed: Mapping[int, FloatArray]) -> None:
        self.meeting = meeting
        self.graph = meeting.lowered.graph
        self.allowed = allowed
        self.around: list[list[int]] = [[] for _ in self.graph.nodes]
        for k, edge in enumerate(self.graph.edges):
            self.around[edge.tail].append(k)
            self.around[edge.head].append(k)

    def extra(self, path: Path) -> float:
        """What both ends need beyond what each needs by itself; 0 where that is rounding."""
        first = self._along(path, self.allowed[path[0][0]])
        free = self._along(path, np.zeros(1))
        last = self.allowed[path[-1][0]]
        both, one, other, neither = (
            float(total.min()) for total in (first + last, first, free + last, free)
        )
        if not isfinite(one + other):
            return 0.0  # a seed that no plan can keep
        extra = both - one - other + neither
        return extra if extra > LEAST_EXTRA * both else 0.0

    def _along(self, path: Path, given: FloatArray) -> FloatArray:
        """The least redistribution for every state of the last node."""
        total = self._start(path[0][0]) + given
        for (_, k), (node, _) in pairwise(path):
            edge = self.meeting.forward(k)
            total = message(edge, edge.tail == node, total, len(self.graph.nodes[node].cost))
            total = total + self._start(node)
        return total

    def _start(self, node: int) -> FloatArray:
        """Nothing for every state that may be."""
        cost = self.graph.nodes[node].cost
        return np.where(np.isfinite(cost), 0.0, FORBIDDEN)


def _other(graph: CostGraph, edge: int, node: int) -> int:
    own = graph.edges[edge]
    return own.head if own.tail == node else own.tail


def _shortened(path: Sequence[str]) -> list[str]:
    """A way of many ops by its ends."""
    return [*path] if len(path) <= 8 else [*path[:3], f"{len(path) - 6} ops", *path[-3:]]
