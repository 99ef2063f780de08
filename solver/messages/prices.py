"""The price of a byte at which the least weighted cost is most, and what is cheapest there.

    bound(price) = least of (cost + price * memory) - price * limit

is concave in the price. Every choice is a line above it; where the lines of the best choice above
the limit and of the best within it meet is the next price to look at, until no choice lies below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from solver.cost_graph import ChoiceCost, IntArray

FIRST_SHARE = 1.0  # chosen: of cost by limit, the first price: a byte is worth as much as it is
GROWTH = 8.0  # chosen: prices of memory span many powers of ten, cutting back takes few steps
MOST_GROWTHS = 24  # chosen: a byte is then worth 10^21 times the average one
MOST_CUTS = 12  # chosen: each halves the space between the lines at the least, mostly
CLOSE = 1e-6  # chosen: relative, what a next line may lie below and is still the same


@dataclass(frozen=True, slots=True)
class Line:
    """A choice and what it costs."""

    choice: IntArray
    found: ChoiceCost

    def at(self, price: float, limit: float) -> float:
        return self.found.cost_ns + price * (self.found.memory_bytes - limit)


@dataclass(slots=True)
class Bracket:
    """The best choices above the limit and within it."""

    limit: float
    above: Line
    within: Line | None = None

    def add(self, line: Line, price: float) -> None:
        """A choice found at this price. Of those on either side the lowest there stays."""
        if line.found.cost_ns == math.inf:
            return
        if line.found.memory_bytes > self.limit:
            if line.at(price, self.limit) <= self.above.at(price, self.limit):
                self.above = line
        elif self.within is None or line.at(price, self.limit) <= self.within.at(price, self.limit):
            self.within = line

    def meet(self) -> float:
        """Where the two lines meet; needs both."""
        assert self.within is not None
        above, within = self.above.found, self.within.found
        slope = above.memory_bytes - within.memory_bytes
        return max(within.cost_ns - above.cost_ns, 0.0) / slope


def bracketed(bracket: Bracket, solve: Callable[[float], Line]) -> bool:
    """Prices ever higher until a choice is within the limit; False where none is."""
    price = FIRST_SHARE * abs(bracket.above.found.cost_ns) / max(bracket.limit, 1.0)
    for _ in range(MOST_GROWTHS):
        bracket.add(solve(price), price)
        if bracket.within is not None:
            return True
        price *= GROWTH
    return False


def narrowed(bracket: Bracket, solve: Callable[[float], Line]) -> float:
    """The price where the lines meet and no choice is below; there is one within the limit."""
    price = bracket.meet()
    for _ in range(MOST_CUTS):
        both = bracket.above.at(price, bracket.limit)
        line = solve(price)
        if line.at(price, bracket.limit) >= both - CLOSE * abs(both):
            break
        bracket.add(line, price)
        price = bracket.meet()
    return price
