"""What lies between settled ops at its best: values as read and parameters.

Around settled ops these form trees of few nodes, so that the least cost is exact.
"""

from __future__ import annotations

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.search.core.cost_graph import CostGraph
from meshwright_solver.stage.heuristics.propagation.lookahead import OPEN, Outlook

DEEPER_THAN_ANY = 1 << 30


def completed(graph: CostGraph, settled: IntArray) -> IntArray:
    """The cheapest choice with these states; OPEN where a node has none yet."""
    state = settled.copy()
    outlook = Outlook(graph, state, rounds=0)
    for node in np.nonzero(state == OPEN)[0].tolist():
        # from a root on: each node sees what was chosen for the one before
        waiting = [node] if state[node] == OPEN else []
        while waiting:
            own = waiting.pop()
            state[own] = int(np.argmin(outlook.of(own, depth=DEEPER_THAN_ANY)))
            waiting += [
                other
                for edge in outlook.around[own]
                if state[other := outlook.tables.other(edge, own)] == OPEN
            ]
    return state
