"""The price of memory, bracketed by two choices.

    L(price) = min over choices of cost + price * (memory - limit)  <=  least cost within the limit

L is concave and piecewise linear in price >= 0, and every choice is a line that lies nowhere below
it. Two choices bracket its peak, one above the limit and one within it. The next price is where
their lines meet; a choice that lies below both there replaces one of them, until there is none
(LARAC). It needs only a solver of cost + price * memory under one price, exact or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.search.core.cost_graph import ChoiceCost

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class PricedChoice(Generic[C]):
    """A choice, in the form that its search uses, and its cost: a line over the price."""

    choice: C
    cost: ChoiceCost

    def at(self, price: float, limit_bytes: float) -> float:
        """The line at a price in ns per byte."""
        return self.cost.cost_ns + price * (self.cost.memory_bytes - limit_bytes)


# states of all nodes of a cost graph, shape (nodes,)
PricedStates = PricedChoice[IntArray]


def meeting_price(over: PricedChoice[C], within: PricedChoice[C]) -> float:
    """The price in ns per byte at which two lines meet. over: takes more memory than within."""
    dearer_ns = max(within.cost.cost_ns - over.cost.cost_ns, 0.0)
    return dearer_ns / (over.cost.memory_bytes - within.cost.memory_bytes)


@dataclass(slots=True)
class MemoryBracket(Generic[C]):
    """The lowest choices above the limit and within it; None while they are unknown."""

    limit_bytes: float
    over: PricedChoice[C] | None = None
    within: PricedChoice[C] | None = None

    @property
    def pair(self) -> tuple[PricedChoice[C], PricedChoice[C]]:
        """The choices above the limit and within it, both known."""
        assert self.over is not None
        assert self.within is not None
        return self.over, self.within

    def meeting_price(self) -> float:
        return meeting_price(*self.pair)

    def add(self, choice: PricedChoice[C], price: float) -> None:
        """Replace the known choice on the same side of the limit, unless that is lower at
        `price`."""
        if choice.cost.cost_ns == math.inf:
            return
        is_over = choice.cost.memory_bytes > self.limit_bytes
        known = self.over if is_over else self.within
        if known is not None and choice.at(price, self.limit_bytes) > known.at(
            price, self.limit_bytes
        ):
            return
        if is_over:
            self.over = choice
        else:
            self.within = choice

    def grow(
        self,
        solve: Callable[[float], PricedChoice[C] | None],
        price: float,
        factor: float,
        most: int,
    ) -> None:
        """Search for the missing side at prices that rise or fall from `price`, which is the first.

        The search ends after `most` prices, or where `solve` returns None.
        """
        for _ in range(most):
            if self.over is not None and self.within is not None:
                return
            choice = solve(price)
            if choice is None:
                return
            self.add(choice, price)
            price = price * factor if self.within is None else price / factor

    def narrow(
        self, solve: Callable[[float], PricedChoice[C] | None], most: int
    ) -> Iterator[float]:
        """Yield every price where the lines met and `solve` found a choice below, and add that.

        It ends after `most` prices, or where `solve` returns None: there is no choice below.
        """
        for _ in range(most):
            price = self.meeting_price()
            choice = solve(price)
            if choice is None:
                return
            self.add(choice, price)
            yield price
