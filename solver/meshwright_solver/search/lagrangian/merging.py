"""The merge of two choices with a common origin: the improvements of both in one choice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.connected_components import connected
from meshwright_solver.search.lagrangian.model import PairwiseModel

_MOST_PARTS = 50  # chosen: parts that are tried separately

Rank = tuple[float, float]


def merged(
    model: PairwiseModel,
    origin: IntArray,
    first: IntArray,
    second: IntArray,
    rank: Callable[[IntArray], Rank],
) -> IntArray:
    """`first` with the changes of `second` that touch none of first's and improve it.

    The costs of changes are independent where no edge joins their nodes.
    """
    changed = (first != origin) | (second != origin)
    touching = changed[model.tails] & changed[model.heads]
    part = connected(model.nodes, model.tails[touching], model.heads[touching])
    taken = np.unique(part[first != origin])
    mergeable = np.setdiff1d(np.unique(part[second != origin]), taken)
    best, best_rank = first, rank(first)
    together = np.where(np.isin(part, mergeable), second, first)
    if len(mergeable) and rank(together) < best_rank:
        return together
    for number in mergeable[:_MOST_PARTS]:
        trial = np.where(part == number, second, best)
        trial_rank = rank(trial)
        if trial_rank < best_rank:
            best, best_rank = trial, trial_rank
    return best
