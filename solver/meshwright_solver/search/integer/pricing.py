"""Prices of memory that raise a dual bound, and the choices that they yield.

Where memory can peak at one moment only, two choices bracket the best price
(`meshwright_solver.search.core.memory_bracket`). With more moments the prices follow the excess of
the choice found at them (subgradients).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.search.core.cost_graph import ChoiceCost
from meshwright_solver.search.core.memory_bracket import MemoryBracket, PricedChoice
from meshwright_solver.search.integer.crossing import crossed
from meshwright_solver.search.integer.dual import Dual

_SWEEPS = 12  # chosen: planning graphs take 2 to 8
_SWEEPS_MORE = 4  # chosen: after a small change of price the messages are nearly right
_RAISES = 40  # chosen: 4 ** 40 is more than any ratio of costs
_PRICES_TRIED = 12  # chosen: planning graphs take 5 to 9
_SUBGRADIENTS = 60  # chosen: bounds hardly rise after 40
_STEP = 1.1  # chosen: from the best price of an earlier round
_FIRST_STEP = 4.0  # chosen: from a guess
_ON_THE_LINE = 1e-9  # chosen: of the value; no choice lies below the two lines
_MOVES = 3  # chosen: rounds of moves of single nodes; more hardly find any
_HOPED = 0.05  # chosen: the assumed gap between bound and choice, where no choice is known
_SHORTER = 0.9  # chosen: factor of the stride after a step that did not raise the bound
_NEAR = 1e-3  # chosen: a first price that costs this share of the bound

_Places = dict[int, int]  # node -> place among its remaining states


@dataclass(frozen=True, slots=True)
class Listener:
    """The receiver of choices (by places) and bounds, which decides when they are good enough."""

    offer: Callable[[dict[int, int]], None]
    raise_bound: Callable[[float], None]
    is_enough: Callable[[], bool]
    upper_ns: Callable[[], float]


@dataclass(frozen=True, slots=True)
class _Line:
    """A choice, its cost, and its memory less the limit at every moment."""

    places: _Places
    cost_ns: float
    excess: FloatArray

    @property
    def most(self) -> float:
        return float(self.excess.max())

    @property
    def priced(self) -> PricedChoice[_Places]:
        """The line over the price of the one moment, with memory less the limit."""
        return PricedChoice(self.places, ChoiceCost(self.cost_ns, self.most))


def climb(dual: Dual, listener: Listener, deadline: Deadline, prices: FloatArray | None) -> None:
    """Leave the dual at the best prices. Raises OutOfTime.

    prices: the first ones to try, None where none are known.
    """
    _Climb(dual, listener, deadline).run(prices)


class _Climb:
    def __init__(self, dual: Dual, listener: Listener, deadline: Deadline) -> None:
        self.dual = dual
        self.listener = listener
        self.deadline = deadline
        self.best_bound_ns = -math.inf
        self.best_prices = dual.prices

    def run(self, prices: FloatArray | None) -> None:
        dual = self.dual
        line = self._at(dual.prices if prices is None else prices, _SWEEPS)
        if dual.pairs.limit_bytes is None or line is None or self.listener.is_enough():
            return
        if line.most <= 0 and not dual.prices.any():
            return
        if dual.pairs.moments == 1:
            self._bracket(line)
        else:
            self._follow(line)
        self._at(self.best_prices, _SWEEPS)

    def _at(self, prices: FloatArray, sweeps: int) -> _Line | None:
        """A choice at these prices, reported with the bound; None where decoding fails."""
        dual, listener = self.dual, self.listener
        dual.price(prices)
        bound = dual.improve(sweeps, self.deadline, listener.upper_ns())
        listener.raise_bound(bound)
        if bound > self.best_bound_ns:
            self.best_bound_ns, self.best_prices = bound, dual.prices
        places = dual.decoded()
        if places is None:
            return None
        listener.offer(places)
        places = dual.improved(places, _MOVES)
        listener.offer(places)
        pairs = dual.pairs
        excess = pairs.profile(places) - (pairs.limit_bytes or 0.0)
        return _Line(places, pairs.cost_ns(places), excess)

    def _bracket(self, line: _Line) -> None:
        """One moment: bracket the limit by two choices, then follow where their lines meet."""
        price = float(self.dual.prices[0])
        factor = _STEP
        if price == 0:
            price = max(abs(self.best_bound_ns), 1.0) * _NEAR / line.most
            factor = _FIRST_STEP
        bracket: MemoryBracket[_Places] = MemoryBracket(0.0)
        bracket.add(line.priced, price)

        def solve(price: float) -> PricedChoice[_Places] | None:
            line = self._at(np.array([price]), _SWEEPS_MORE)
            if line is None:
                return None
            self._offer_crossed(bracket.within if line.most > 0 else bracket.over, line)
            return None if self.listener.is_enough() else line.priced

        def solve_below(price: float) -> PricedChoice[_Places] | None:
            meeting = bracket.pair[0].at(price, 0.0)
            choice = solve(price)
            is_below = (
                choice is not None and choice.at(price, 0.0) < meeting - abs(meeting) * _ON_THE_LINE
            )
            return choice if is_below else None

        first = price * factor if line.most > 0 else price / factor
        bracket.grow(solve, first, factor, _RAISES)
        if bracket.over is None or bracket.within is None or bracket.meeting_price() == 0:
            return
        for _ in bracket.narrow(solve_below, _PRICES_TRIED):
            if bracket.meeting_price() == 0:
                return

    def _offer_crossed(self, other: PricedChoice[_Places] | None, line: _Line) -> None:
        """Offer crossovers of two choices, one too large, the other too dear: first nodes as in
        one, the rest as in the other. Along repeated blocks only the cut pays for the change."""
        if other is None or line.cost_ns == math.inf:
            return
        two = other.choice, line.places
        for before, behind in (two, two[::-1]) if line.most <= 0 else (two[::-1], two):
            places = crossed(self.dual.pairs, before, behind)
            if places is not None:
                self.listener.offer(places)

    def _follow(self, line: _Line) -> None:
        """Several moments: subgradient steps after Polyak."""
        stride = 1.0
        prices = self.dual.prices
        current: _Line | None = line
        for _ in range(_SUBGRADIENTS):
            if current is None or self.listener.is_enough():
                return
            slope = np.where((current.excess > 0) | (prices > 0), current.excess, 0.0)
            norm = float(slope @ slope)
            if norm == 0:
                return
            goal = self.listener.upper_ns()
            if goal == math.inf:
                goal = self.best_bound_ns + max(abs(self.best_bound_ns), 1.0) * _HOPED
            step = stride * max(goal - self.best_bound_ns, 0.0) / norm
            prices = np.maximum(prices + step * slope, 0.0)
            before = self.best_bound_ns
            current = self._at(prices, 1)
            if self.best_bound_ns <= before:
                stride *= _SHORTER
