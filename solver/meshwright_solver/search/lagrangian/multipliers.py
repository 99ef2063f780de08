"""The multipliers: the price of a byte at every moment that gives the best bound.

    bound(prices) = least cost + memory priced, by message passing,  - prices . limit

is concave in prices >= 0. The volume algorithm (Barahona, Anbil 2000) maximizes it. It steps along
an average of the excess of decoded choices, from the best prices so far. Steps become longer after
a success and shorter after many failures. An evaluation takes one sweep: messages persist.
"""

from __future__ import annotations

import math

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.search.lagrangian.memory_profile import (
    ActiveMoments,
    add_prices,
    cost_of,
    peaks,
    profile_of,
)
from meshwright_solver.search.lagrangian.model import PairwiseModel
from meshwright_solver.search.lagrangian.reductions import adjacency
from meshwright_solver.search.lagrangian.trws import no_messages, sweep

_FIRST_STEP = 0.1  # chosen: of the gap
_LONGER, _SHORTER, _FAILURES = 1.1, 0.66, 10  # published: Barahona, Anbil, within their ranges
_AVERAGED = 0.1  # published: the same
_SHORTEST_STEP = 1e-7  # chosen: below it no bound moves
_RISING_SHARE = 0.001  # chosen: of the gap, in one call
_STEP_WORK = 3e4  # measured: the cost of a step beside its sweep, in additions
_FULL_LOOK = 10  # chosen: steps between checks of all moments
_HOPED_GAP = 0.05  # chosen: the assumed gap while no choice within the limit is known


class Multipliers:
    def __init__(self, model: PairwiseModel, memory_limit: float) -> None:
        self.bound = -math.inf
        self.is_rising = True
        self.decoded = np.zeros(model.nodes, dtype=np.int64)
        self.decoded_rank = (math.inf, math.inf)
        self._model = model
        self._limit = memory_limit
        self._adjacency = adjacency(model)
        self._messages = no_messages(model)
        self._states = np.zeros(model.nodes, dtype=np.int64)
        self._active = ActiveMoments.of(model, peaks(profile_of(model, self.decoded), -math.inf))
        self._prices = np.zeros(len(self._active.moments))
        self._direction = np.zeros(len(self._active.moments))
        self._step = _FIRST_STEP
        self._failures = 0
        self._rounds = 0
        self._work = 3.0 * len(model.pair) + 10.0 * len(model.unary) + _STEP_WORK

    @property
    def prices(self) -> FloatArray:
        """The price of a byte at every moment of the model."""
        prices = np.zeros(self._model.moments)
        prices[self._active.moments] = self._prices
        return prices

    @property
    def is_done(self) -> bool:
        return self._step < _SHORTEST_STEP

    def advance(self, work: float, aim: float, stop: IntArray) -> None:
        """Step for about this many additions. aim: the least known cost, or inf.

        decoded is the best choice since the call: least excess first, then least cost.
        """
        self.decoded_rank = (math.inf, math.inf)
        before = self.bound
        done = 0.0
        while done < work and stop[0] == 0 and not self.is_done:
            self._one_step(aim, stop)
            done += self._work
        gap = max(aim - before, 0.0) if aim < math.inf else math.inf
        self.is_rising = before == -math.inf or self.bound - before > _RISING_SHARE * gap

    def _one_step(self, aim: float, stop: IntArray) -> None:
        prices = self._next_prices(aim)
        bound = self._evaluate(prices, stop)
        if stop[0] != 0:
            return
        self._rounds += 1
        is_better = bound > self.bound
        more = bound - self.bound
        if is_better:
            self.bound, self._prices = bound, prices
        excess = self._excess_of_decoded()
        share = 1.0 if self._rounds == 1 else _AVERAGED
        self._direction += share * (excess - self._direction)
        if is_better:
            if math.isinf(self._limit):
                # without prices only message passing remains, until the bound stops rising
                if more < 1e-9 * abs(bound):
                    self._fail()
            else:
                self._step = min(self._step * _LONGER, 2.0)
                self._failures = 0
        else:
            self._fail()

    def _fail(self) -> None:
        self._failures += 1
        if self._failures >= _FAILURES:
            self._failures = 0
            self._step *= _SHORTER

    def _next_prices(self, aim: float) -> FloatArray:
        if math.isinf(self._limit) or self._rounds == 0:
            return self._prices
        best = self.bound
        target = aim + 0.02 * abs(aim) if aim < math.inf else best + _HOPED_GAP * abs(best)
        target = min(target, best + max(abs(best), 1.0))
        along = np.where((self._prices > 0) | (self._direction > 0), self._direction, 0.0)
        length = self._step * max(target - best, 0.0) / max(float(along @ along), 1e-12)
        return np.maximum(0.0, self._prices + length * along / max(self._limit, 1.0))

    def _evaluate(self, prices: FloatArray, stop: IntArray) -> float:
        model = self._active.restricted
        unary = model.unary.copy()
        add_prices(model, prices, unary)
        bound = sweep(model, unary, *self._adjacency, self._messages, self._states, stop)
        offset = float(prices @ (model.base - self._limit)) if prices.any() else 0.0
        return bound + model.constant + offset

    def _excess_of_decoded(self) -> FloatArray:
        """The excess at the active moments, relative to the limit."""
        if math.isinf(self._limit):
            self._keep_decoded(0.0)
            return np.zeros(len(self._direction))
        profile = profile_of(self._active.restricted, self._states)
        if self._rounds % _FULL_LOOK == 1 or (profile <= self._limit).all():
            whole = profile_of(self._model, self._states)
            self._keep_decoded(float(np.maximum(whole - self._limit, 0.0).sum()))
            if self._activate(peaks(whole, self._limit)):
                profile = profile_of(self._active.restricted, self._states)
        return np.asarray(profile / max(self._limit, 1.0) - 1.0)

    def _keep_decoded(self, excess: float) -> None:
        rank = (excess, cost_of(self._model, self._states))
        if rank < self.decoded_rank:
            self.decoded_rank = rank
            self.decoded = self._states.copy()

    def _activate(self, moments: IntArray) -> bool:
        """Activate these moments; whether any of them is new."""
        old = self._active.moments
        if not len(np.setdiff1d(moments, old)):
            return False
        self._active.add(moments)
        place = np.searchsorted(self._active.moments, old)
        for name in ("_prices", "_direction"):
            grown = np.zeros(len(self._active.moments))
            grown[place] = getattr(self, name)
            setattr(self, name, grown)
        return True
