"""Two choices crossed: the nodes before a cut as in one, those from it on as in the other.

Under a price of memory all repeats of a block change their mind together. A cut between repeats
lets some have changed it and others not, which is what a limit between the two wants. All cuts are
priced at once: what a node or an edge adds changes only where the cut passes one of its ends.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solver.cost_graph import CostGraph, FloatArray, IntArray
from solver.cost_sums import CostSums


def crossed(
    graph: CostGraph, before: IntArray, behind: IntArray, useful_ns: float
) -> IntArray | None:
    """The cheapest cut within the limit, None where none costs less than is of use.

    Of graphs without lifetimes; neither choice may take what is forbidden.
    """
    assert graph.lifetimes is None
    cuts = _Cuts(len(graph.nodes), before, behind)
    cost, forbidden = cuts.of(graph.cost_sums)
    for select, tails, heads in graph.selects:
        at_tails, at_heads = cuts.passed(tails, heads)
        forbidden += cuts.while_passed(select[at_tails] != at_heads, tails, heads)
    cost[forbidden > 0] = np.inf
    if graph.memory_limit_bytes is not None:
        cost[cuts.of(graph.memory_sums)[0] > graph.memory_limit_bytes] = np.inf
    cut = int(cost.argmin())
    if not cost[cut] < useful_ns:
        return None
    return np.concatenate([before[:cut], behind[cut:]])


def uncrossed(
    graph: CostGraph, before: IntArray, behind: IntArray, useful_ns: float
) -> IntArray | None:
    """For searches in which all repeats are to choose alike."""
    del graph, before, behind, useful_ns
    return None


class _Cuts:
    """Sums for every cut: cut k has the nodes 0 .. k-1 as in the first choice."""

    def __init__(self, count: int, before: IntArray, behind: IntArray) -> None:
        self._count = count
        self._before = before
        self._behind = behind

    def of(self, sums: CostSums) -> tuple[FloatArray, IntArray]:
        """What every cut adds up to, and how many forbidden pairs it takes besides."""
        before, behind = self._before, self._behind
        steps = np.zeros(self._count + 2)
        forbidden = np.zeros(self._count + 1, dtype=np.int64)
        for table, nodes in sums.nodes:
            first = table[behind[nodes]]
            steps[0] += first.sum()
            self._add(steps, nodes + 1, table[before[nodes]] - first)
        if not sums.edges:
            return np.cumsum(steps)[:-1], forbidden
        tails = np.concatenate([own for _, own, _ in sums.edges])
        heads = np.concatenate([own for _, _, own in sums.edges])
        first = sums.edges_at(behind[tails], behind[heads])
        passed = sums.edges_at(*self.passed(tails, heads))
        last = sums.edges_at(before[tails], before[heads])
        is_forbidden = np.isinf(passed)
        forbidden += self.while_passed(is_forbidden, tails, heads)
        passed[is_forbidden] = 0.0
        steps[0] += first.sum()
        self._add(steps, np.minimum(tails, heads) + 1, passed - first)
        self._add(steps, np.maximum(tails, heads) + 1, last - passed)
        return np.cumsum(steps)[:-1], forbidden

    def passed(self, tails: IntArray, heads: IntArray) -> tuple[IntArray, IntArray]:
        """The states of both ends while the cut lies between them."""
        forward = tails < heads
        return (
            np.where(forward, self._before[tails], self._behind[tails]),
            np.where(forward, self._behind[heads], self._before[heads]),
        )

    def while_passed(self, flags: NDArray[np.bool_], tails: IntArray, heads: IntArray) -> IntArray:
        """How many of these edges each cut lies between the ends of."""
        low, high = np.minimum(tails, heads)[flags], np.maximum(tails, heads)[flags]
        steps = np.bincount(low + 1, minlength=self._count + 2)
        steps -= np.bincount(high + 1, minlength=self._count + 2)
        return np.cumsum(steps)[:-1]

    def _add(self, steps: FloatArray, places: IntArray, values: FloatArray) -> None:
        steps += np.bincount(places, values, minlength=self._count + 2)
