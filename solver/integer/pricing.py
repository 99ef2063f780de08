"""Prices of memory that make a dual bound high, and choices found on the way.

Where memory can peak at one moment only, two choices bracket the best price, one above the limit
and one within it; the next price is where their lines meet (LARAC). With more moments the prices
follow the excess of the choice found at them (subgradients).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solver.cost_graph import FloatArray
from solver.deadline import Deadline
from solver.integer.crossing import crossed
from solver.integer.dual import Dual
from solver.integer.pairs import Pairs

_SWEEPS = 12  # chosen: planning graphs take 2 to 8
_SWEEPS_MORE = 4  # chosen: after a small change of price the messages are nearly right
_RAISES = 40  # chosen: 4 ** 40 is more than any ratio of costs
_PRICES_TRIED = 12  # chosen: planning graphs take 5 to 9
_SUBGRADIENTS = 60  # chosen: bounds hardly rise after 40
_STEP = 1.1  # chosen: from the best price of an earlier round
_FIRST_STEP = 4.0  # chosen: from a guess
_ON_THE_LINE = 1e-9  # chosen: of the value; no choice lies below the two lines
_NEAR = 1e-3  # chosen: a first price that costs this share of the bound

Offer = Callable[[dict[int, int]], None]
"""Hands a choice of places on."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A choice, its cost, and its memory less the limit at every moment."""

    places: dict[int, int]
    cost_ns: float
    excess: FloatArray

    @property
    def most(self) -> float:
        return float(self.excess.max())


def climb(
    dual: Dual, offer: Offer, upper_ns: float, deadline: Deadline, prices: FloatArray | None
) -> float:
    """The best bound found; the dual is left at its prices. Raises OutOfTime.

    prices: where to begin, None where nothing is known.
    """
    if prices is not None:
        dual.price(prices)
    bound = dual.improve(_SWEEPS, deadline, upper_ns)
    line = _decoded(dual, offer)
    limit = dual.pairs.limit_bytes
    if limit is None or line is None or (line.most <= 0 and not dual.prices.any()):
        return bound
    best = (bound, dual.prices)
    if dual.pairs.moments == 1:
        best = _bracketed(dual, offer, line, best, deadline)
    else:
        best = _followed(dual, offer, line, best, upper_ns, deadline)
    dual.price(best[1])
    return max(best[0], dual.improve(_SWEEPS, deadline, upper_ns))


def _decoded(dual: Dual, offer: Offer) -> _Line | None:
    places = dual.decoded()
    if places is None:
        return None
    offer(places)
    places = dual.improved(places, 3)
    offer(places)
    pairs = dual.pairs
    excess = pairs.profile(places) - (pairs.limit_bytes or 0.0)
    return _Line(places, pairs.cost_ns(places), excess)


def _bracketed(
    dual: Dual, offer: Offer, line: _Line, best: tuple[float, FloatArray], deadline: Deadline
) -> tuple[float, FloatArray]:
    price = float(dual.prices[0])
    factor = _STEP
    if price == 0:
        price, factor = max(abs(best[0]), 1.0) * _NEAR / line.most, _FIRST_STEP
    sides: dict[bool, _Line] = {line.most > 0: line}
    for _ in range(_RAISES):
        if len(sides) == 2:
            break
        price = price * factor if True in sides else price / factor
        bound, found = _at(dual, price, offer, deadline)
        best = max(best, (bound, dual.prices), key=lambda pair: pair[0])
        if found is None:
            return best
        sides[found.most > 0] = found
    _offer_crossed(dual.pairs, sides, offer)
    for _ in range(_PRICES_TRIED):
        if len(sides) < 2 or sides[False].cost_ns <= sides[True].cost_ns:
            return best
        over, within = sides[True], sides[False]
        price = (within.cost_ns - over.cost_ns) / (over.most - within.most)
        bound, found = _at(dual, price, offer, deadline)
        best = max(best, (bound, dual.prices), key=lambda pair: pair[0])
        if found is None:
            return best
        sides[found.most > 0] = found
        _offer_crossed(dual.pairs, sides, offer)
        meeting = over.cost_ns + price * over.most
        if found.cost_ns + price * found.most >= meeting - abs(meeting) * _ON_THE_LINE:
            return best
    return best


def _offer_crossed(pairs: Pairs, sides: dict[bool, _Line], offer: Offer) -> None:
    """Of two choices, one too large, the other too dear: first nodes as in one, the rest as in the
    other. Along repeated blocks only one place pays for the change."""
    if len(sides) < 2:
        return
    for first, second in ((True, False), (False, True)):
        places = crossed(pairs, sides[first].places, sides[second].places)
        if places is not None:
            offer(places)


def _at(
    dual: Dual, price: float, offer: Offer, deadline: Deadline
) -> tuple[float, _Line | None]:
    dual.price(np.array([price]))
    bound = dual.improve(_SWEEPS_MORE, deadline)
    return bound, _decoded(dual, offer)


def _followed(
    dual: Dual,
    offer: Offer,
    line: _Line,
    best: tuple[float, FloatArray],
    upper_ns: float,
    deadline: Deadline,
) -> tuple[float, FloatArray]:
    stride = 1.0
    prices = dual.prices
    found: _Line | None = line
    for _ in range(_SUBGRADIENTS):
        if found is None:
            return best
        slope = np.where((found.excess > 0) | (prices > 0), found.excess, 0.0)
        norm = float(slope @ slope)
        if norm == 0:
            return best
        goal = upper_ns if math.isfinite(upper_ns) else best[0] + max(abs(best[0]), 1.0) * 0.05
        prices = np.maximum(prices + stride * max(goal - best[0], 0.0) / norm * slope, 0.0)
        dual.price(prices)
        bound = dual.improve(1, deadline)
        if bound > best[0]:
            best = (bound, prices)
        else:
            stride *= 0.9
        found = _decoded(dual, offer)
    return best
