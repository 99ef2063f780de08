"""Loops over a symbolic size, of which a trace holds as many rounds as the traced size has.

A copy of the module runs on the meta device, at small sizes and at the traced ones. A line of the
program that calls PyTorch GROWTH times as often at the traced sizes runs in such a loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from meshwright.capture.forward_calls import CallLog, EnoughCalls, ForwardPasses, Line
from meshwright.capture.trace_errors import shown_line

# chosen: the small sizes, or a SHARE of the traced ones. Layers call as often at all sizes, and a
# branch for long sequences at most twice as often
SMALL, SHARE, GROWTH = 61, 16, 3
# chosen: a graph of more calls takes more than a minute to capture
MOST_CALLS = 5_000


@dataclass(frozen=True)
class UnrolledLoop:
    """A loop over a symbol; line: `FILE:LINE: TEXT` of a call in it."""

    symbol: str
    line: str


class LoopSearch:
    """The search for loops among the calls of forward passes."""

    def __init__(self, passes: ForwardPasses) -> None:
        self._passes = passes

    def loop(self, sizes: Mapping[str, int]) -> UnrolledLoop | None:
        """A loop over one of the symbols at these traced sizes; None where there is none.

        Raises NotRunnable.
        """
        small = {symbol: min(SMALL, max(2, size // SHARE)) for symbol, size in sizes.items()}
        counts = self._passes.at(small).counts
        if self._grows(counts, sizes) is None:
            return None
        for symbol, size in sizes.items():
            line = self._grows(counts, {**small, symbol: size})
            if line is not None:
                return UnrolledLoop(symbol, shown_line(*line))
        return None

    def is_short(self, sizes: Mapping[str, int]) -> bool:
        """Whether a forward pass at these sizes calls PyTorch at most MOST_CALLS times.

        Raises NotRunnable.
        """
        try:
            self._passes.at(sizes, CallLog(most=MOST_CALLS))
        except EnoughCalls:
            return False
        return True

    def _grows(self, counts: Mapping[Line, int], sizes: Mapping[str, int]) -> Line | None:
        # of a line that small sizes do not reach
        most = max(counts.values(), default=0) or float("inf")
        limits = CallLog(lambda line: GROWTH * counts.get(line, most))
        try:
            self._passes.at(sizes, limits)
        except EnoughCalls as enough:
            return enough.line
        return None
