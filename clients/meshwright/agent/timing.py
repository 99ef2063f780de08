"""Timing of repeated runs: the median without outliers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MIN_RUNS = 5  # chosen: a median of fewer follows one slow run
MAX_RUNS = 200
REJECTED = 5.0  # chosen: median absolute deviations beyond which a run is an outlier


@dataclass(frozen=True, slots=True)
class Timing:
    """The time of a task.

    ns: the median of the accepted runs. spread_ns: their interquartile range. runs, rejected: the
    numbers of accepted and rejected runs.
    """

    ns: float
    spread_ns: float
    runs: int
    rejected: int = 0

    @classmethod
    def of(cls, runs_ns: Sequence[float]) -> Timing:
        """The timing of at least one run; runs far from the median are rejected."""
        median_ns = statistics.median(runs_ns)
        deviation = statistics.median(abs(run - median_ns) for run in runs_ns)
        accepted = [run for run in runs_ns if abs(run - median_ns) <= REJECTED * deviation] or [
            median_ns
        ]
        rejected = len(runs_ns) - len(accepted)
        if len(accepted) < 2:
            return cls(median_ns, 0.0, len(accepted), rejected)
        low, _, high = statistics.quantiles(accepted, n=4, method="inclusive")
        return cls(statistics.median(accepted), high - low, len(accepted), rejected)


def time_runs(
    work: Callable[[], object],
    wait: Callable[[], None],
    *,
    seconds: float,
    least_run_ns: float = 0.0,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> list[float]:
    """Time of the work in each run, in ns: at least MIN_RUNS, then as many as fit into `seconds`.

    `wait` blocks until the work is complete. A run repeats the work for about `least_run_ns` before
    it waits, so that the submission and the wait add little. Warm-up runs are not counted.
    """

    def run_ns(repeats: int) -> float:
        start = clock()
        for _ in range(repeats):
            work()
        wait()
        return (clock() - start) / repeats

    work()
    wait()
    repeats = 1 if least_run_ns == 0 else max(1, round(least_run_ns / max(run_ns(1), 1.0)))
    runs: list[float] = []
    begin = clock()
    while len(runs) < MIN_RUNS or (len(runs) < MAX_RUNS and clock() - begin < seconds * 1e9):
        runs.append(run_ns(repeats))
    return runs
