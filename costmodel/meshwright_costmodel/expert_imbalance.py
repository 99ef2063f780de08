"""Expert imbalance: the load of the busiest device for uneven routing of tokens to experts.

    f     tokens of the busiest expert over the mean of all e experts (`Setup.expert_imbalance`)
    w     number of groups of k = e / w experts over the devices
    z(n)  the mean of the largest of n standard normal numbers; z(1) = 0
    L(w)  tokens of the busiest group over the mean

The model takes the tokens of experts as e normal numbers of equal mean and deviation and of known
sum, in groups of random order. The mean of k of them has a deviation smaller by sqrt(k). The
largest of w such means is z(w) deviations above the mean, compared with z(e) for single experts:

    L(w) = 1 + (f - 1) z(w) / (z(e) sqrt(e / w)),  so that L(1) = 1 and L(e) = f,
    and L(w) <= w, the value for all tokens in one group

The known sum shifts all numbers equally, so that the order does not change. For random routing with
f up to 2, the error is at most 5 % (`tests/costmodel/test_expert_imbalance.py`). For f = 4 and few
very hot experts, the model overestimates by up to 20 %. Hot experts in one group do not average
out.
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
    """z(count), by the trapezoid rule over the distribution of the maximum."""
    x = np.linspace(-10, 10, 4001)
    below = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x.tolist()]) ** count
    return float(np.trapezoid((x > 0) + 0.5 * (x == 0) - below, x))


@lru_cache(maxsize=4096)
def group_load(imbalance: float, experts: int, groups: int) -> float:
    """L(groups); `groups` is at most the number of experts."""
    groups = min(groups, experts)
    if groups <= 1:
        return 1.0
    share = largest_of(groups) / (largest_of(experts) * math.sqrt(experts / groups))
    return min(1 + (min(imbalance, experts) - 1) * share, groups)


@dataclass(frozen=True, slots=True)
class ExpertLoad:
    """The load of the busiest device by axes on experts.

    on: the slots of a value, or the parts of an op, that are experts. outer: the number of groups
    into which outer axes cut the experts.
    """

    on: tuple[int, ...]
    experts: int
    imbalance: float
    outer: int = 1

    def of(self, states: NDArray[np.int64], axis_sizes: Sequence[int]) -> NDArray[np.float64]:
        """The load in each state; a code of a state is the position of a slot or part."""
        sizes = np.array(axis_sizes, dtype=np.int64)
        return self.of_ways(np.where(np.isin(states, self.on), sizes, 1).prod(axis=-1))

    def of_ways(self, ways: NDArray[np.int64]) -> NDArray[np.float64]:
        """The load relative to that of the outer groups, elementwise."""
        loads = np.ones(ways.shape)
        before = group_load(self.imbalance, self.experts, self.outer)
        for count in np.unique(ways):
            load = group_load(self.imbalance, self.experts, self.outer * int(count))
            loads[ways == count] = load / before
        return loads
