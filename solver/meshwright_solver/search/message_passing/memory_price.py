"""The price of memory for message passing, whose choices at a price need not be the best.

`meshwright_solver.search.core.memory_bracket` describes the bracket of the peak. The first price is
a guess and grows until a choice is within the limit. The prices then narrow until no choice lies
below by more than `_CLOSE`.
"""

from __future__ import annotations

from collections.abc import Callable

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.search.core.memory_bracket import MemoryBracket, PricedStates

_FIRST_SHARE = 1.0  # chosen: the first price, as a share of cost over limit
_GROWTH = 8.0  # chosen: prices of memory span many powers of ten; narrowing takes few steps
_MOST_GROWTHS = 24  # chosen: a byte is then worth 10^21 times the average one
_MOST_CUTS = 12  # chosen: most of them at least halve the space between the lines
_CLOSE = 1e-6  # chosen: relative; a line that lies lower by less counts as the same


def bracketed(bracket: MemoryBracket[IntArray], solve: Callable[[float], PricedStates]) -> bool:
    """Raise prices until a choice is within the limit; False where none is."""
    assert bracket.over is not None
    price = _FIRST_SHARE * abs(bracket.over.cost.cost_ns) / max(bracket.limit_bytes, 1.0)
    bracket.grow(solve, price, _GROWTH, _MOST_GROWTHS)
    return bracket.within is not None


def narrowed(bracket: MemoryBracket[IntArray], solve: Callable[[float], PricedStates]) -> float:
    """The price where the lines meet and no choice lies below; one within the limit is known."""

    def solve_below(price: float) -> PricedStates | None:
        meeting = bracket.pair[0].at(price, bracket.limit_bytes)
        line = solve(price)
        is_below = line.at(price, bracket.limit_bytes) < meeting - _CLOSE * abs(meeting)
        return line if is_below else None

    for _ in bracket.narrow(solve_below, _MOST_CUTS):
        pass
    return bracket.meeting_price()
