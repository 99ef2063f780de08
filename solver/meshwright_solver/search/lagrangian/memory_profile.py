"""The memory at every moment, and its cost at a price for every moment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.search.lagrangian.model import PairwiseModel
from meshwright_solver.search.lagrangian.remap import same_nodes


@njit(cache=True, nogil=True)
def add_prices(model: PairwiseModel, prices: FloatArray, out: FloatArray) -> None:
    """Add to `out`, by state, usage times the prices (of a byte, by moment) while it is held."""
    upto = np.zeros(prices.size + 1)
    for m in range(prices.size):
        upto[m + 1] = upto[m] + prices[m]
    for n in range(model.starts.size - 1):
        start = model.starts[n]
        k = model.starts[n + 1] - start
        for j in range(model.first_term[n], model.first_term[n + 1]):
            price = upto[model.until[j]] - upto[model.since[j]]
            if price != 0.0:
                for s in range(k):
                    out[start + s] += price * model.usage[model.usages[j] + s]


@njit(cache=True, nogil=True)
def profile_of(model: PairwiseModel, states: IntArray) -> FloatArray:
    """The bytes in use at every moment."""
    steps = np.zeros(model.base.size + 1)
    for n in range(states.size):
        for j in range(model.first_term[n], model.first_term[n + 1]):
            x = model.usage[model.usages[j] + states[n]]
            steps[model.since[j]] += x
            steps[model.until[j]] -= x
    out = np.empty(model.base.size)
    run = 0.0
    for m in range(model.base.size):
        run += steps[m]
        out[m] = model.base[m] + run
    return out


@njit(cache=True, nogil=True)
def cost_of(model: PairwiseModel, states: IntArray) -> float:
    total = model.constant
    for n in range(states.size):
        total += model.unary[model.starts[n] + states[n]]
    for e in range(model.tails.size):
        h = model.heads[e]
        columns = model.starts[h + 1] - model.starts[h]
        total += model.pair[model.tables[e] + states[model.tails[e]] * columns + states[h]]
    return total


def peaks(profile: FloatArray, above: float) -> IntArray:
    """The highest moment of every stretch that exceeds `above`."""
    moments = np.flatnonzero(profile > above)
    if not len(moments):
        return moments
    stretches = np.split(moments, np.flatnonzero(np.diff(moments) > 1) + 1)
    return np.array([stretch[np.argmax(profile[stretch])] for stretch in stretches])


def leanest(model: PairwiseModel) -> IntArray:
    """The state of least memory of every node, summed over the moments; of equals the cheapest."""
    held = np.zeros(len(model.unary))
    add_prices(model, np.ones(model.moments), held)
    order = np.lexsort((model.unary, held, np.repeat(np.arange(model.nodes), model.extents)))
    return order[model.starts[:-1]] - model.starts[:-1]


@dataclass(slots=True)
class ActiveMoments:
    """The few moments at which memory has been near the limit, and the model restricted to
    these."""

    model: PairwiseModel
    moments: IntArray
    restricted: PairwiseModel

    @staticmethod
    def of(model: PairwiseModel, moments: IntArray) -> ActiveMoments:
        distinct = np.unique(moments) if len(moments) else np.zeros(1, dtype=np.int64)
        return ActiveMoments(model, distinct, _at(model, distinct))

    def add(self, moments: IntArray) -> None:
        self.moments = np.union1d(self.moments, moments)
        self.restricted = _at(self.model, self.moments)

    def prices(self, prices: FloatArray) -> FloatArray:
        """Add every price to that of the next active moment, so that none is lost."""
        place = np.searchsorted(self.moments, np.flatnonzero(prices))
        place = np.minimum(place, len(self.moments) - 1)
        summed = np.bincount(place, prices[prices != 0], len(self.moments))
        return np.asarray(summed, dtype=np.float64)


def _at(model: PairwiseModel, moments: IntArray) -> PairwiseModel:
    since = np.searchsorted(moments, model.since).astype(np.int64)
    until = np.searchsorted(moments, model.until).astype(np.int64)
    known = model._replace(since=since, until=until, base=model.base[moments])
    return same_nodes(known).with_terms(known)
