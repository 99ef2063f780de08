"""Enumeration of all choices of a small model, one axis of an array for every node."""

from __future__ import annotations

import itertools

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.search.lagrangian.model import PairwiseModel


def cheapest_of_all(model: PairwiseModel, memory_limit: float) -> IntArray | None:
    """The cheapest choice within the limit; None if every such choice is forbidden."""
    axes = {int(node): axis for axis, node in enumerate(np.flatnonzero(model.extents > 1))}
    shape = [int(model.extents[node]) for node in axes]

    def spread(table: FloatArray, *nodes: int) -> FloatArray:
        form = [1] * len(axes)
        for node in nodes:
            if node in axes:
                form[axes[node]] = shape[axes[node]]
        return table.reshape(form)

    costs = np.zeros(shape)
    for node in axes:
        costs += spread(model.unary[model.starts[node] : model.starts[node + 1]], node)
    for edge in range(model.edges):
        table = model.pair[model.tables[edge] : model.tables[edge + 1]]
        costs += spread(table, int(model.tails[edge]), int(model.heads[edge]))
    owners = np.repeat(np.arange(model.nodes), np.diff(model.first_term)).tolist()
    # the same terms are live between two of these moments
    changes = np.unique(np.concatenate([[0], model.since, model.until])).tolist()
    for start, end in itertools.pairwise([*changes, model.moments]):
        if start < end:
            taken = np.full(shape, model.base[start:end].max())
            for term in np.flatnonzero((model.since <= start) & (start < model.until)).tolist():
                usage = model.usage[model.usages[term] : model.usages[term + 1]]
                taken += spread(usage, owners[term])
            costs[taken > memory_limit] = np.inf
    best = int(np.argmin(costs))
    if costs.flat[best] == np.inf:
        return None
    states = np.zeros(model.nodes, dtype=np.int64)
    states[list(axes)] = np.unravel_index(best, shape)
    return states
