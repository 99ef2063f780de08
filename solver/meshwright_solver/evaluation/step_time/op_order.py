"""The order in which the ops of a stage DAG run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.evaluation.step_time.columns import EDGE_READER, EDGE_VALUE, NOBODY
from meshwright_solver.problem.weight_casts import running_order


def ranks_of(at: IntArray, order: IntArray) -> IntArray:
    """By place in the graph, the rank of an op in an order of rows. at: the place of each row."""
    ranks = np.full(int(at.max(initial=0)) + 1, NOBODY, dtype=np.int64)
    ranks[at[order]] = np.arange(len(order))
    return ranks


def with_casts_ahead(
    order: IntArray,
    at: IntArray,
    is_cast: NDArray[np.bool_],
    edges: IntArray,
    producer: IntArray,
) -> IntArray:
    """An order of rows by place, with the casts of parameters ahead of their readers.

    is_cast: by row. edges, producer: of a stage DAG, with places of ops.
    """
    if not is_cast.any():
        return order
    ranks, made = ranks_of(at, order), producer[edges[:, EDGE_VALUE]]
    first = np.full(len(order), len(order), dtype=np.int64)
    is_read = made >= 0
    np.minimum.at(first, ranks[made[is_read]], ranks[edges[is_read, EDGE_READER]])
    return order[running_order(is_cast[order], first)]
