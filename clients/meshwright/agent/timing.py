"""How long something takes: many runs, their median, and what is too far from it left out."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MIN_RUNS = 5  # chosen: a median of fewer follows one slow run
MAX_RUNS = 200
REJECTED = 5.0  # chosen: median absolute deviations beyond which a run is another thing's fault


@dataclass(frozen=True, slots=True)
class Timing:
    """ns: the median of the runs kept; spread_ns: between their quartiles.

    rejected: how many runs were left out.
    """

    ns: float
    spread_ns: float
    runs: int
    rejected: int = 0

    @classmethod
    def of(cls, runs_ns: Sequence[float]) -> Timing:
        """Of at least one run; runs far from the median are left out."""
        middle = statistics.median(runs_ns)
        deviation = statistics.median(abs(run - middle) for run in runs_ns)
        kept = [run for run in runs_ns if abs(run - middle) <= REJECTED * deviation] or [middle]
        rejected = len(runs_ns) - len(kept)
        if len(kept) < 2:
            return cls(middle, 0.0, len(kept), rejected)
        low, _, high = statistics.quantiles(kept, n=4, method="inclusive")
        return cls(statistics.median(kept), high - low, len(kept), rejected)


def timed(
    work: Callable[[], object],
    wait: Callable[[], None],
    *,
    seconds: float,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> list[float]:
    """ns of each run: MIN_RUNS at least, then as many as fit into `seconds`.

    wait: until what `work` began is done. One run before is not counted.
    """
    work()
    wait()
    runs: list[float] = []
    begun = clock()
    while len(runs) < MIN_RUNS or (len(runs) < MAX_RUNS and clock() - begun < seconds * 1e9):
        started = clock()
        work()
        wait()
        runs.append(float(clock() - started))
    return runs
