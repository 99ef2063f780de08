"""The label search, which closes the gap: labels walk from the last eliminated node to the first.

Every elimination gives, for a partial choice, the exact least value of its completions under its
weights:
    least cost alone, least memory alone, and least cost + m * memory at the best multiplier m.
A label is dropped when its memory cannot get within the limit, when its cost or its bound
    value - m * limit
cannot undercut the incumbent, or when another label dominates it. The labels that remain at the end
are optimal.

If more labels remain than the width, those with the least bound continue and the others wait. The
waiting labels are searched afterwards, least bound first: the search is complete and its bound only
rises.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.search.core.incumbent import ROUNDING, Incumbent
from meshwright_solver.search.elimination.branching import Branching
from meshwright_solver.search.elimination.elimination_order import EliminationProgram
from meshwright_solver.search.elimination.evaluated_program import Solution
from meshwright_solver.search.elimination.partial_choices import LabelLevel

STAGE = "labels"

# chosen: on 11 graphs of bench/transformer_graph.py the first two left at most 0.5 % on 9.
_DIVES = (1, 4, 16, 64)
_FIRST_WIDTH = 256
_WIDEST = 65_536
_WAITING_NUMBERS = 200_000_000  # chosen: 1.6 GB of labels


class LabelSearch:
    """`solutions`: the one under cost alone, the one under memory alone, then any others.

    The search ends after `max_labels` labels, with the bound that then holds. Labels determine its
    time and memory and, unlike seconds, are the same on every machine.
    """

    def __init__(
        self,
        program: EliminationProgram,
        solutions: list[Solution],
        incumbent: Incumbent,
        deadline: Deadline,
        max_labels: int,
    ) -> None:
        limit = incumbent.graph.memory_limit_bytes
        assert limit is not None
        self._incumbent = incumbent
        self._deadline = deadline
        self._limit = limit
        self._prices = np.array([s.weights.memory * limit for s in solutions])
        values = np.array([s.value for s in solutions])
        self._branching = Branching(program, solutions, values, self._bounds_of)
        self._stops = self._branching.stops()
        self._slack = 10 * ROUNDING * (np.abs(values) + self._prices)
        self._waiting: list[tuple[float, int, LabelLevel]] = []
        self._waiting_numbers = 0
        self._pushed = 0
        self._lost_bound = np.inf
        self._max_labels = max_labels
        self._is_diving = True
        self._ceilings = self._ceilings_now()
        empty = np.zeros(1, dtype=np.int64)
        live = np.zeros((1, 0), dtype=np.int64)
        self._start = LabelLevel(0, values[:, None], live, None, empty, empty)

    @property
    def is_spent(self) -> bool:
        """Whether the search has used up `max_labels`."""
        return self._branching.labels_made >= self._max_labels

    def run(self) -> None:
        """Search for the optimum. Raises OutOfTime; the incumbent then has a valid bound."""
        for width in _DIVES:
            self._lost_bound = np.inf
            self._follow(self._start, width, self._forget)
            self._raise_bound()
            if self._incumbent.is_closed():
                return
        self._is_diving = False
        self._lost_bound = np.inf
        self._wait(self._start)
        width = _FIRST_WIDTH
        while self._waiting and not self.is_spent:
            _, _, labels = heapq.heappop(self._waiting)
            self._waiting_numbers -= labels.values.size + labels.live.size
            self._follow(labels, width, self._wait)
            self._raise_bound()
            if self._incumbent.is_closed():
                return
            width = min(2 * width, _WIDEST)
        self._raise_bound()

    def _raise_bound(self) -> None:
        """Raise the bound to that of the waiting labels; dropped labels save at most the
        allowance."""
        waiting = self._waiting[0][0] if self._waiting else np.inf
        done = self._incumbent.cost_ns - self._incumbent.allowance_ns()
        if self._incumbent.tolerance == 0.0:
            done = self._incumbent.cost_ns
        self._incumbent.raise_bound(float(min(waiting, self._lost_bound, done)), STAGE)

    def _follow(self, labels: LabelLevel, width: int, leave: Callable[[LabelLevel], None]) -> None:
        self._ceilings = self._ceilings_now()
        labels = self._promising(labels)
        self._branching.width = width
        while len(labels):
            if labels.level == len(self._stops):
                self._finish(labels)
                return
            self._deadline.check()
            if self.is_spent:
                leave(labels)
                return
            labels, left_out = self._branching.extended(
                labels, self._stops[labels.level], self._ceilings
            )
            if left_out is not None:
                self._lose(left_out)
            if len(labels) > width:
                order = np.argsort(self._bounds(labels), kind="stable")
                leave(labels.subset(np.sort(order[width:])))
                labels = labels.subset(np.sort(order[:width]))

    def _finish(self, labels: LabelLevel) -> None:
        for label in np.argsort(labels.values[0], kind="stable").tolist():
            states = labels.states_backwards(label)
            choice = np.empty(len(self._incumbent.graph.nodes), dtype=np.int64)
            for stop, state in zip(reversed(self._stops), states, strict=True):
                for node, chosen in self._branching.states_of(stop, state):
                    choice[node] = chosen
            cost = self._incumbent.offer(choice, STAGE)
            if cost.memory_bytes <= self._limit:
                return

    def _ceilings_now(self) -> FloatArray:
        """The values, one for each weights, that a useful label must not exceed.

        A dive also follows choices that save little, if one of them would close the gap.
        """
        incumbent = self._incumbent
        most_ns = incumbent.cost_ns - incumbent.allowance_ns()
        if self._is_diving:
            most_ns = max(most_ns, incumbent.lower_bound_ns + incumbent.allowance_ns())
        ceilings = most_ns + self._prices
        ceilings[1] = self._limit
        return np.asarray(ceilings + self._slack)

    def _promising(self, labels: LabelLevel) -> LabelLevel:
        keeps = (labels.values <= self._ceilings[:, None]).all(axis=0)
        return labels.subset(np.flatnonzero(keeps))

    def _bounds(self, labels: LabelLevel) -> FloatArray:
        return self._bounds_of(labels.values)

    def _bounds_of(self, values: FloatArray) -> FloatArray:
        """The best lower bound on the cost of each label's completions within the limit."""
        bounds = values - (self._prices + self._slack)[:, None]
        bounds[1] = -np.inf
        return np.asarray(bounds.max(axis=0))

    def _wait(self, labels: LabelLevel) -> None:
        numbers = labels.values.size + labels.live.size
        if self._waiting_numbers + numbers > _WAITING_NUMBERS:
            self._forget(labels)
            return
        self._pushed += 1
        self._waiting_numbers += numbers
        bound = float(self._bounds(labels).min())
        heapq.heappush(self._waiting, (bound, self._pushed, labels))

    def _forget(self, labels: LabelLevel) -> None:
        self._lose(labels.values)

    def _lose(self, values: FloatArray) -> None:
        self._lost_bound = min(self._lost_bound, float(self._bounds_of(values).min()))
