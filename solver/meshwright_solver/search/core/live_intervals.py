"""The times at which memory can peak.

Live memory changes only where a lifetime starts or ends, and grows only at starts. It can peak only
at a start that is followed by an end before the next start. These times are numbered 0, 1, .. as
`moments`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Timeline:
    """`first[n]`, `last[n]`: node n is live at moments first <= m < last, at none where equal."""

    moments: int
    first: NDArray[np.int64]
    last: NDArray[np.int64]

    @staticmethod
    def of(lifetimes: NDArray[np.int64]) -> Timeline:
        """lifetimes: (n, 2) half-open."""
        lives = lifetimes[:, 0] < lifetimes[:, 1]
        starts = np.unique(lifetimes[lives, 0])
        ends = np.unique(lifetimes[lives, 1])
        # an end at the time of the next start counts: ends come first
        ends_until = np.searchsorted(ends, starts, side="right")
        ends_until_next = np.append(ends_until[1:], len(ends))
        times = starts[ends_until_next > ends_until]
        first = np.searchsorted(times, lifetimes[:, 0], side="left").astype(np.int64)
        last = np.searchsorted(times, lifetimes[:, 1], side="left").astype(np.int64)
        last[~lives] = first[~lives]
        return Timeline(len(times), first, last)

    def profile(self, taken: NDArray[np.float64]) -> NDArray[np.float64]:
        """The live memory at every moment, shape (moments,). taken: the memory of each node."""
        steps = np.bincount(self.first, taken, self.moments + 1)
        steps -= np.bincount(self.last, taken, self.moments + 1)
        profile: NDArray[np.float64] = np.cumsum(steps[: self.moments])
        return profile

    def peak(self, taken: NDArray[np.float64]) -> float:
        return float(self.profile(taken).max()) if self.moments else 0.0
