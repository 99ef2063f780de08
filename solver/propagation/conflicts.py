"""Seeds that do not go together: where their layouts meet, and what that costs.

Two seeds a and b that some path of nodes connects are in conflict where fixing both costs more than
fixing either adds up to:

    extra = D(a and b) - D(a) - D(b) + D(neither)  >  0

with D the least cost along that path of ops and values, each with its own parameters. So the
all-reduces that a strategy brings along anyway are no conflict, the redistribution between
strategies that shard differently is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from meshwright.schema import Layout
from solver.cost_graph import CostGraph, FloatArray, Projection
from solver.propagation.meetings import Meeting, costliest
from solver.propagation.tables import Tables

# chosen: below this share of what the path costs at least, rounding and ties would be reported
LEAST_EXTRA = 1e-3


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two ops whose given strategies clash. path: the ops that connect them, both included.

    tensor lies in the first layout and is needed in the second; moving it costs redistribution_ns
    a step, extra_ns is what both strategies cost together beyond what each costs alone.
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
            f"({self.redistribution_ns / 1e3:.1f} µs a step); together they cost "
            f"{self.extra_ns / 1e3:.1f} µs more than each by itself"
        )


def conflicts(
    free: CostGraph, allowed: Mapping[int, FloatArray], meeting: Meeting
) -> tuple[Conflict, ...]:
    """The conflicts between seeds, by what they cost.

    free: the graph in which seeds may be anything. allowed: seed -> 0 where a state of it is given,
    infinite elsewhere. meeting: what the nodes are, and the states that they have in the end.
    """
    chains = _Chains(free, allowed)
    found: dict[tuple[int, int], Conflict] = {}
    for path in _paths(free, chains.around, sorted(allowed)):
        ends = (path[0][0], path[-1][0])
        extra, least = chains.extra(path)
        if not extra > LEAST_EXTRA * least:
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
    """Least costs along paths, with what hangs on them alone."""

    def __init__(self, graph: CostGraph, allowed: Mapping[int, FloatArray]) -> None:
        self.graph = graph
        self.allowed = allowed
        self.tables = Tables(graph)
        self.around: list[list[int]] = [[] for _ in graph.nodes]
        for k, edge in enumerate(graph.edges):
            self.around[edge.tail].append(k)
            self.around[edge.head].append(k)
        self._own: dict[int, FloatArray] = {}

    def extra(self, path: Path) -> tuple[float, float]:
        """What both ends cost beyond what each costs by itself, and the least along the path."""
        tail, head = path[0][0], path[-1][0]
        nothing = np.zeros(1)
        free = self._along(path, nothing)
        first = self._along(path, self.allowed[tail])
        last = self.allowed[head]
        both, one, other, neither = (
            float((first + last).min()),
            float(first.min()),
            float((free + last).min()),
            float(free.min()),
        )
        return both - one - other + neither, neither

    def _along(self, path: Path, given: FloatArray) -> FloatArray:
        """The least cost of every state of the last node."""
        total = self._cost(path[0][0]) + given
        for (_, edge), (node, _) in pairwise(path):
            total = self.tables.message(edge, node, total) + self._cost(node)
        return total

    def _cost(self, node: int) -> FloatArray:
        """A node's own cost, with that of parameters that it alone reads."""
        if node not in self._own:
            total = self.graph.nodes[node].cost
            for edge in self.around[node]:
                other = _other(self.graph, edge, node)
                if len(self.around[other]) == 1 and not isinstance(
                    self.graph.edges[edge], Projection
                ):
                    total = total + self.tables.message(edge, node, self.graph.nodes[other].cost)
            self._own[node] = total
        return self._own[node]


def _other(graph: CostGraph, edge: int, node: int) -> int:
    own = graph.edges[edge]
    return own.head if own.tail == node else own.tail


def _shortened(path: Sequence[str]) -> list[str]:
    """A way of many ops by its ends."""
    return [*path] if len(path) <= 8 else [*path[:3], f"{len(path) - 6} ops", *path[-3:]]
