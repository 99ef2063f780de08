"""Two choices that started from one: what each made better, in one choice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.connected_components import connected
from meshwright_solver.search.lagrangian.model import PairwiseModel

_MOST_PARTS = 50  # chosen: parts that are tried one by one

Rank = tuple[float, float]


def merged(
    model: PairwiseModel,
    origin: IntArray,
    first: IntArray,
    second: IntArray,
    rank: Callable[[IntArray], Rank],
) -> IntArray:
    """`first` with those changes of `second` that touch none of first's and make it better.

    Changes of nodes that no edge joins cost what they cost, whatever the others do.
    """
    changed = (first != origin) | (second != origin)
    touching = changed[model.tails] & changed[model.heads]
    part = connected(model.nodes, model.tails[touching], model.heads[touching])
    taken = np.unique(part[first != origin])
    own = np.setdiff1d(np.unique(part[second != origin]), taken)
    best, best_rank = first, rank(first)
    together = np.where(np.isin(part, own), second, first)
    if len(own) and rank(together) < best_rank:
        return together
    for number in own[:_MOST_PARTS]:
        trial = np.where(part == number, second, best)
        trial_rank = rank(trial)
        if trial_rank < best_rank:
            best, best_rank = trial, trial_rank
    return best
