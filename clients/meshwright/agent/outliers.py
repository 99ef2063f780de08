"""Outliers among devices: slow devices are excluded from medians and reported in notes.

A device that is slow for whole kernels differs from the other devices. A device that is slow in
bursts has runs far from its median.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

SLOW = 1.5  # chosen: ratio of a device's median to the others' from which it is excluded
ALWAYS = 0.5  # chosen: share of slow kernels from which a device counts as always slow
UNSTEADY = 0.15  # chosen: share of rejected runs from which a device is reported


class Health:
    """Health of the devices of a measurement, one per rank."""

    def __init__(self, ranks: int) -> None:
        self._kernels = 0
        self._slow: list[list[float]] = [[] for _ in range(ranks)]
        self._runs = [0] * ranks
        self._rejected = [0] * ranks

    def well(
        self, medians_ns: Sequence[float], runs: Sequence[int], rejected: Sequence[int]
    ) -> list[int]:
        """The healthy ranks of one kernel.

        runs, rejected: accepted and rejected runs of each rank. The reference is the lower median,
        so that the slower of two devices is the outlier.
        """
        typical_ns = statistics.median_low(medians_ns)
        self._kernels += 1
        healthy = []
        for rank, ns in enumerate(medians_ns):
            self._runs[rank] += runs[rank] + rejected[rank]
            self._rejected[rank] += rejected[rank]
            if ns > SLOW * typical_ns:
                self._slow[rank].append(ns / typical_ns)
            else:
                healthy.append(rank)
        return healthy

    def notes(self) -> list[str]:
        """Notes about slow devices, then about unsteady ones."""
        notes = []
        for rank, factors in enumerate(self._slow):
            if factors:
                often = len(factors) / self._kernels > ALWAYS
                notes.append(
                    f"rank {rank} is slow{'' if often else ' at times'}: in {len(factors)} of "
                    f"{self._kernels} kernels, {statistics.median(factors):.1f} times the others, "
                    f"at most {max(factors):.1f}; left out of their medians"
                )
        for rank, (runs, rejected) in enumerate(zip(self._runs, self._rejected, strict=True)):
            if runs and rejected / runs > UNSTEADY:
                notes.append(
                    f"rank {rank} is unsteady: {rejected / runs:.0%} of its runs are far from "
                    "their median and left out"
                )
        return notes
