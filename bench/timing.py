"""Medians, and the fixed numpy loop beside which every table puts its times."""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

Result = TypeVar("Result")

REPEATS = 3


def median_seconds(work: Callable[[], Result]) -> tuple[float, Result]:
    """The median of REPEATS runs, and what the last one gave."""
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - started)
    return statistics.median(times), result


def reference_loop() -> float:
    """A min-plus product of two 200 x 200 matrices, row by row: a measure of the machine."""
    random = np.random.default_rng(0)
    left, right = random.random((200, 200)), random.random((200, 200))
    total = 0.0
    for row in left:
        total += float((right + row[:, None]).min(axis=0).sum())
    return total


def in_own_processes(work: Callable[[int], None], sizes: Iterable[int]) -> None:
    """Work on one size after the other, each in a new process: peak memory never falls."""
    for size in sizes:
        process = multiprocessing.get_context("spawn").Process(target=work, args=(size,))
        process.start()
        process.join()


def say(line: str) -> None:
    """A line of the table, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
