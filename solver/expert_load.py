"""The load of the busiest device where tokens are not spread evenly over experts.

    f     tokens of the busiest expert over the mean of all e experts (`Setup.expert_imbalance`)
    w     into how many groups of k = e / w experts the devices that have them cut the experts
    z(n)  the mean of the largest of n standard normal numbers; z(1) = 0
    L(w)  tokens of the busiest group over the mean

Tokens of experts are taken to be e normal numbers of one mean and deviation whose sum is known,
and experts to lie in groups in any order. The mean of k of them deviates sqrt(k) times less, the
largest of w such means is z(w) instead of z(e) deviations away:

    L(w) = 1 + (f - 1) z(w) / (z(e) sqrt(e / w)),  so that L(1) = 1 and L(e) = f,
    and never more than all tokens in one group: w

The known sum takes the same from every number, so that it changes no largest one. Random routing
with f up to 2 is met within 5 %; with f of 4 and a few very hot experts this is up to a fifth too
much (`tests/solver/test_expert_load.py` draws the first). Hot experts side by side would not
average out at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=4096)
def largest_of(count: int) -> float:
    """z(count), by the trapezoid rule over the distribution of the largest."""
    x = np.linspace(-10, 10, 4001)
    below = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x.tolist()]) ** count
    return float(np.trapezoid((x > 0) + 0.5 * (x == 0) - below, x))


@lru_cache(maxsize=4096)
def group_load(imbalance: float, experts: int, groups: int) -> float:
    """L(groups); more groups than experts are as many as there are experts."""
    groups = min(groups, experts)
    if groups <= 1:
        return 1.0
    share = largest_of(groups) / (largest_of(experts) * math.sqrt(experts / groups))
    return min(1 + (min(imbalance, experts) - 1) * share, groups)


@dataclass(frozen=True, slots=True)
class ExpertLoad:
    """What axes on experts make of the busiest device.

    on: the slots of a value, or the parts of an op, that are experts. outer: ways in which they are
    cut already.
    """

    on: tuple[int, ...]
    experts: int
    imbalance: float
    outer: int = 1

    def of(self, states: NDArray[np.int64], axis_sizes: Sequence[int]) -> NDArray[np.float64]:
        """The load in each state (codes below the number of slots or parts are these)."""
        sizes = np.array(axis_sizes, dtype=np.int64)
        return self.of_ways(np.where(np.isin(states, self.on), sizes, 1).prod(axis=-1))

    def of_ways(self, ways: NDArray[np.int64]) -> NDArray[np.float64]:
        """The load over that of the outer ways."""
        found = np.ones(ways.shape)
        before = group_load(self.imbalance, self.experts, self.outer)
        for own in np.unique(ways):
            load = group_load(self.imbalance, self.experts, self.outer * int(own))
            found[ways == own] = load / before
        return found
