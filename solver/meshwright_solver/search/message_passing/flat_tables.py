"""Flat tables: all vectors and tables of a network in one array, at the current weights.

exact     for bounds and choices, at the places that `links_of` states
single    for messages: the same, softened and in single precision, then all once more by columns
"""

from __future__ import annotations

import numpy as np

from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.search.core.interned_tables import CostWeights
from meshwright_solver.search.message_passing.network import Network
from meshwright_solver.search.message_passing.trws import SingleArray, starts_of

_HIGH = 1e4  # chosen: the cost of a forbidden entry in messages, of the largest entry


class FlatTables:
    """Rewritten at every change of weights, except entries that no price changes."""

    def __init__(self, network: Network) -> None:
        self.definitions = network.definitions
        self.wanted = network.wanted().tolist()
        self.starts = starts_of(network).tolist()
        self.exact: FloatArray = np.empty(self.starts[-1])
        self._single: SingleArray = np.empty(2 * self.starts[-1], dtype=np.float32)
        self._weights: CostWeights | None = None
        self._stale: set[int] = set()

    def write(self, known: dict[int, FloatArray], weights: CostWeights) -> None:
        """known: the wanted arrays at these weights."""
        before = self._weights
        only_priced = before is not None and before.cost == weights.cost
        for place, number in enumerate(self.wanted):
            if not only_priced or self.definitions.has_memory[number]:
                start, stop = self.starts[place : place + 2]
                self.exact[start:stop] = known[number].ravel()
                self._stale.add(place)
        self._weights = weights

    @property
    def single(self) -> SingleArray:
        if self._stale:
            self._soften()
        return self._single

    def _soften(self) -> None:
        exact, half = self.exact, len(self.exact)
        largest = max(float(exact.max(initial=0.0)), -float(exact.min(initial=0.0)), 1.0)
        if largest == np.inf:
            largest = max(float(np.abs(exact[np.isfinite(exact)]).max(initial=0.0)), 1.0)
        high = np.float32(_HIGH * largest)
        for place in self._stale:
            start, stop = self.starts[place : place + 2]
            part = self._single[start:stop]
            part[:] = exact[start:stop]
            np.minimum(part, high, out=part)
            shape = self.definitions.shapes[self.wanted[place]]
            turned = self._single[half + start : half + stop].reshape(shape[::-1])
            turned[...] = part.reshape(shape).T
        self._stale.clear()
