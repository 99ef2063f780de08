"""The price of memory for message passing, whose choices at a price need not be the best.

The peak is bracketed as `meshwright_solver.search.core.memory_bracket` describes it. The first
price is guessed and grows until a choice is within the limit; prices then narrow to where no choice
lies below by more than `_CLOSE`.
"""

from __future__ import annotations

from collections.abc import Callable

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.search.core.memory_bracket import MemoryBracket, PricedStates

_FIRST_SHARE = 1.0  # chosen: of cost by limit, the first price: a byte is worth as much as it is
_GROWTH = 8.0  # chosen: prices of memory span many powers of ten, cutting back takes few steps
_MOST_GROWTHS = 24  # chosen: a byte is then worth 10^21 times the average one
_MOST_CUTS = 12  # chosen: each halves the space between the lines at the least, mostly
_CLOSE = 1e-6  # chosen: relative, what a next line may lie below and is still the same


def bracketed(bracket: MemoryBracket[IntArray], solve: Callable[[float], PricedStates]) -> bool:
    """Prices ever higher until a choice is within the limit; False where none is."""
    assert bracket.over is not None
    price = _FIRST_SHARE * abs(bracket.over.cost.cost_ns) / max(bracket.limit_bytes, 1.0)
    bracket.grow(solve, price, _GROWTH, _MOST_GROWTHS)
    return bracket.within is not None


def narrowed(bracket: MemoryBracket[IntArray], solve: Callable[[float], PricedStates]) -> float:
    """The price where the lines meet and no choice is below; there is one within the limit."""

    def solve_below(price: float) -> PricedStates | None:
        meeting = bracket.pair[0].at(price, bracket.limit_bytes)
        line = solve(price)
        is_below = line.at(price, bracket.limit_bytes) < meeting - _CLOSE * abs(meeting)
        return line if is_below else None

    for _ in bracket.narrow(solve_below, _MOST_CUTS):
        pass
    return bracket.meeting_price()
