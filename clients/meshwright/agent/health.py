"""Devices that are slow, always or at times: left out of medians, and named.

A device that is slow for whole kernels shows beside the others; one that is slow in bursts shows in
its own runs, far from its median.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

SLOW = 1.5  # chosen: a device's median over the others' from which on it is left out and named
ALWAYS = 0.5  # chosen: share of kernels in which a slow device is no longer slow at times
UNSTEADY = 0.15  # chosen: share of runs left out from which on a device is named


class Health:
    """What the kernels of a measurement say of its devices, one a rank."""

    def __init__(self, ranks: int) -> None:
        self._kernels = 0
        self._slow: list[list[float]] = [[] for _ in range(ranks)]
        self._runs = [0] * ranks
        self._rejected = [0] * ranks

    def well(
        self, medians_ns: Sequence[float], runs: Sequence[int], rejected: Sequence[int]
    ) -> list[int]:
        """The ranks whose medians of a kernel count. runs: kept of each; rejected: left out.

        The measure is the lower median, so that of two devices the slower one is the slow one.
        """
        usual = statistics.median_low(medians_ns)
        self._kernels += 1
        found = []
        for rank, ns in enumerate(medians_ns):
            self._runs[rank] += runs[rank] + rejected[rank]
            self._rejected[rank] += rejected[rank]
            if ns > SLOW * usual:
                self._slow[rank].append(ns / usual)
            else:
                found.append(rank)
        return found

    def notes(self) -> list[str]:
        """Slow devices first, then those whose runs differ."""
        said = []
        for rank, factors in enumerate(self._slow):
            if factors:
                often = len(factors) / self._kernels > ALWAYS
                said.append(
                    f"rank {rank} is slow{'' if often else ' at times'}: in {len(factors)} of "
                    f"{self._kernels} kernels, {statistics.median(factors):.1f} times the others, "
                    f"at most {max(factors):.1f}; left out of their medians"
                )
        for rank, (runs, rejected) in enumerate(zip(self._runs, self._rejected, strict=True)):
            if runs and rejected / runs > UNSTEADY:
                said.append(
                    f"rank {rank} is unsteady: {rejected / runs:.0%} of its runs are far from "
                    "their median and left out"
                )
        return said
