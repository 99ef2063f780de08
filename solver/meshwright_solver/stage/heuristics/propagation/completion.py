"""Completion of settled ops: the best states of values as read and of parameters.

Around settled ops these nodes form small trees, so that the least cost is exact.
"""

from __future__ import annotations

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.search.core.cost_graph import CostGraph
from meshwright_solver.stage.heuristics.propagation.lookahead import OPEN, Outlook

DEEPER_THAN_ANY = 1 << 30


def completed(graph: CostGraph, settled: IntArray) -> IntArray:
    """The cheapest choice with these states; OPEN marks a node without one."""
    state = settled.copy()
    outlook = Outlook(graph, state, rounds=0)
    for node in np.nonzero(state == OPEN)[0].tolist():
        # from a root on: each node depends on the choice of the one before
        waiting = [node] if state[node] == OPEN else []
        while waiting:
            current = waiting.pop()
            state[current] = int(np.argmin(outlook.of(current, depth=DEEPER_THAN_ANY)))
            waiting += [
                other
                for edge in outlook.around[current]
                if state[other := outlook.tables.other(edge, current)] == OPEN
            ]
    return state
