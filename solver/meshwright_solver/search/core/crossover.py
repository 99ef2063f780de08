"""One-point crossover of two choices at every cut: nodes before it as in one, the rest as in the
other.

Under a price of memory all repeats of a block change together. A cut between repeats changes only
some of them, which a limit between the two choices needs. All cuts are evaluated at once: the value
of a node or an edge changes only where the cut passes one of its ends.
"""

from __future__ import annotations

import numpy as np

from meshwright_solver.common.arrays import BoolArray, FloatArray, IntArray
from meshwright_solver.search.core.cost_graph import CostGraph
from meshwright_solver.search.core.cost_sums import CostSums


def crossed(
    graph: CostGraph, before: IntArray, behind: IntArray, useful_ns: float
) -> IntArray | None:
    """The cheapest cut within the limit; None where none costs less than `useful_ns`.

    The graph has no lifetimes, and neither choice is forbidden.
    """
    assert graph.lifetimes is None
    sums = _sums(graph.cost_sums, before, behind)
    for select, tails, heads in graph.selects:
        at_tails, at_heads = _passed(before, behind, tails, heads)
        sums.forbid(tails, heads, select[at_tails] != at_heads)
    cost = sums.totals()
    if graph.memory_limit_bytes is not None:
        memory = _sums(graph.memory_sums, before, behind).totals()
        cost[memory > graph.memory_limit_bytes] = np.inf
    cut = int(cost.argmin())
    if not cost[cut] < useful_ns:
        return None
    return np.concatenate([before[:cut], behind[cut:]])


def uncrossed(
    graph: CostGraph, before: IntArray, behind: IntArray, useful_ns: float
) -> IntArray | None:
    """No crossover: for searches in which all repeats choose alike."""
    del graph, before, behind, useful_ns
    return None


class CutSums:
    """The sum of each of the `nodes + 1` cuts: cut k has the nodes 0 .. k-1 as in the choice before
    it, the others as in the one behind it. Neither choice may be forbidden (inf)."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._steps = np.zeros(nodes + 2)
        self._forbidden = np.zeros(nodes + 2, dtype=np.int64)

    def add_nodes(self, nodes: IntArray, before: FloatArray, behind: FloatArray) -> None:
        """Values of nodes in each choice, shape (k,)."""
        self._steps[0] += behind.sum()
        self._add(nodes + 1, before - behind)

    def add_edges(
        self,
        tails: IntArray,
        heads: IntArray,
        before: FloatArray,
        passed: FloatArray,
        behind: FloatArray,
    ) -> None:
        """Values of edges in each choice and, `passed`, with the cut between their ends, shape
        (k,)."""
        is_forbidden = np.isinf(passed)
        self.forbid(tails, heads, is_forbidden)
        passed = np.where(is_forbidden, 0.0, passed)
        self._steps[0] += behind.sum()
        self._add(np.minimum(tails, heads) + 1, passed - behind)
        self._add(np.maximum(tails, heads) + 1, before - passed)

    def forbid(self, tails: IntArray, heads: IntArray, flags: BoolArray) -> None:
        """Forbid the cuts between the ends of the flagged edges."""
        low, high = np.minimum(tails, heads)[flags], np.maximum(tails, heads)[flags]
        self._forbidden += np.bincount(low + 1, minlength=self._nodes + 2)
        self._forbidden -= np.bincount(high + 1, minlength=self._nodes + 2)

    def totals(self) -> FloatArray:
        """By cut, shape (nodes + 1,); inf where it is forbidden."""
        totals = np.cumsum(self._steps)[:-1]
        totals[np.cumsum(self._forbidden)[:-1] > 0] = np.inf
        return totals

    def _add(self, cuts: IntArray, values: FloatArray) -> None:
        self._steps += np.bincount(cuts, values, minlength=self._nodes + 2)


def _sums(sums: CostSums, before: IntArray, behind: IntArray) -> CutSums:
    cuts = CutSums(len(before))
    for table, nodes in sums.nodes:
        cuts.add_nodes(nodes, table[before[nodes]], table[behind[nodes]])
    if sums.edges:
        tails = np.concatenate([edge_tails for _, edge_tails, _ in sums.edges])
        heads = np.concatenate([edge_heads for _, _, edge_heads in sums.edges])
        cuts.add_edges(
            tails,
            heads,
            sums.edges_at(before[tails], before[heads]),
            sums.edges_at(*_passed(before, behind, tails, heads)),
            sums.edges_at(behind[tails], behind[heads]),
        )
    return cuts


def _passed(
    before: IntArray, behind: IntArray, tails: IntArray, heads: IntArray
) -> tuple[IntArray, IntArray]:
    """The states of both ends of edges while the cut lies between them."""
    forward = tails < heads
    return (
        np.where(forward, before[tails], behind[tails]),
        np.where(forward, behind[heads], before[heads]),
    )
