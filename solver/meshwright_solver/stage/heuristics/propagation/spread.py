"""The spread of strategies: ops are settled breadth-first from the seeds, at the least cost.

Ops that read or produce one value, or read one parameter, are neighbours. Of ops equally far from
the seeds the heaviest comes first. Nodes between ops (values as read, parameters) are never
settled: every score takes their best state. Tied ops (copies that one folded layer stands for) have
one strategy.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.deadline import ENDLESS, Deadline
from meshwright_solver.search.core.cost_graph import CostGraph, Projection
from meshwright_solver.stage.heuristics.propagation.lookahead import OPEN, Outlook

SWEEPS = 3  # chosen: later ones find next to nothing


@dataclass(slots=True)
class Spread:
    """Settles the ops of a cost graph. Nodes are those of the graph.

    ops: its op nodes, weights: the undivided cost of each. tied: op node -> all of its group.
    state: of every node, OPEN or fixed. reached: ops in the order in which they were settled.
    deadline: an op that is settled later raises OutOfTime.
    """

    graph: CostGraph
    ops: Sequence[int]
    weights: Mapping[int, float]
    tied: Mapping[int, tuple[int, ...]]
    seeds: Sequence[int]
    deadline: Deadline = ENDLESS
    state: IntArray = field(init=False)
    reached: dict[int, None] = field(default_factory=dict)
    _results: dict[int, list[tuple[int, IntArray]]] = field(init=False)
    _is_op: set[int] = field(init=False)
    _outlook: Outlook | None = None

    def __post_init__(self) -> None:
        self.state = np.full(len(self.graph.nodes), OPEN, dtype=np.int64)
        self._is_op = set(self.ops)
        self._results = {op: [] for op in self.ops}
        for edge in self.graph.edges:
            if isinstance(edge, Projection):
                self._results[edge.tail].append((edge.head, edge.select))

    @property
    def outlook(self) -> Outlook:
        """The outlook around the ops settled at its first use. If all are given, it is not
        built."""
        if self._outlook is None:
            self._outlook = Outlook(self.graph, self.state, self.deadline)
        return self._outlook

    def run(self) -> None:
        """Settle the seeds and all ops that they reach."""
        self.spread(self.seeds)

    def spread(self, starts: Iterable[int]) -> None:
        """Settle ops in the order of their distance from these."""
        queue = [(0, -self.weights[op], op) for op in starts]
        heapq.heapify(queue)
        opened: set[int] = set()
        while queue:
            hops, _, op = heapq.heappop(queue)
            if op in self.reached:
                continue
            self.reached[op] = None
            self.settle(op)
            for near in self._neighbours(op, opened):
                if near not in self.reached:
                    heapq.heappush(queue, (hops + 1, -self.weights[near], near))

    def settle(self, op: int) -> None:
        """Settle an open op, and those tied to it, in the state of least cost.

        If settled neighbours forbid all of its states, its own cost decides.
        """
        if self.state[op] != OPEN:
            return
        self.deadline.check()
        group = self.tied.get(op, (op,))
        total: FloatArray = np.zeros(len(self.graph.nodes[op].cost))
        for tied_op in group:
            total = total + self.outlook.of(tied_op)
        if not np.isfinite(total.min()):
            total = sum((self.graph.nodes[member].cost for member in group), np.zeros(len(total)))
        best = int(np.argmin(total))
        for tied_op in group:
            self._fix(tied_op, best)

    def refine(self) -> None:
        """Settle every op once more, now that all others are."""
        for _ in range(SWEEPS):
            before = self.state.copy()
            for op in self.reached:
                for tied_op in self.tied.get(op, (op,)):
                    self.state[tied_op] = OPEN
                    for node, _ in self._results[tied_op]:
                        self.state[node] = OPEN
                self.settle(op)
            if (self.state == before).all():
                return

    def fix(self, states: Mapping[int, int]) -> None:
        """Settle ops in the given states."""
        for op, state in states.items():
            self._fix(op, state)

    def _neighbours(self, op: int, opened: set[int]) -> list[int]:
        """The neighbours of an op over values and parameters not yet in `opened`; adds these."""
        neighbours: dict[int, None] = {}
        waiting = [op]
        while waiting:
            node = waiting.pop()
            for edge in self.outlook.around[node]:
                other = self.outlook.tables.other(edge, node)
                if other in self._is_op:
                    neighbours[other] = None
                elif other not in opened:
                    opened.add(other)
                    waiting.append(other)
        return sorted(neighbours)

    def _fix(self, op: int, state: int) -> None:
        self.state[op] = state
        for node, select in self._results[op]:
            self.state[node] = select[state]
