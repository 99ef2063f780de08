from __future__ import annotations

import itertools

import pytest

from meshwright.agent.timing import MAX_RUNS, MIN_RUNS, Timing, time_runs


def test_the_median_of_what_is_kept():
    # the deviation from the median 11 is 1 in the middle: 100 is 89 of them away
    found = Timing.of([10, 12, 11, 10, 12, 100])
    assert found == Timing(ns=11, spread_ns=2, runs=5, rejected=1)


def test_a_device_that_flaps_keeps_both_speeds_and_says_so():
    found = Timing.of([10, 20] * 5)
    assert found.runs == 10
    assert found.spread_ns == 10


def test_equal_runs_reject_nothing_but_what_differs():
    assert Timing.of([7.0] * 9 + [8.0]) == Timing(7.0, 0.0, 9, rejected=1)
    assert Timing.of([3.0]) == Timing(3.0, 0.0, 1)


def test_runs_go_on_until_the_time_is_over():
    clock = itertools.count(0, 10)  # every look at the clock is 10 ns later
    runs = time_runs(lambda: None, lambda: None, seconds=1e-6, clock=lambda: next(clock))
    assert set(runs) == {10}
    # before each run one look, or none where there are too few; in it two: 30 ns of 1,000
    assert len(runs) == pytest.approx(34, abs=1)


def test_there_are_some_runs_however_slow_and_not_endless_ones_however_fast():
    done = []
    still = time_runs(lambda: done.append(1), lambda: None, seconds=0, clock=lambda: 0)
    assert len(still) == MIN_RUNS
    assert len(done) == MIN_RUNS + 1  # one before is not counted
    assert len(time_runs(lambda: None, lambda: None, seconds=1, clock=lambda: 0)) == MAX_RUNS


def test_a_run_repeats_short_work_until_the_wait_adds_little():
    """On a device that takes 2 µs for a piece of work, 20 for each wait: 22 by itself, 2.2 in a run
    of 100."""
    now, done = 0.0, 0

    def work() -> None:
        nonlocal now, done
        now += 2_000
        done += 1

    def wait() -> None:
        nonlocal now
        now += 20_000

    runs = time_runs(work, wait, seconds=0, least_run_ns=2_200_000, clock=lambda: round(now))
    assert runs == [2_200] * MIN_RUNS
    assert done == 2 + 100 * MIN_RUNS  # the warm-up, and one run that finds the number


def test_work_that_is_long_runs_once():
    clock = itertools.count(0, 5_000_000)
    done = []
    time_runs(
        lambda: done.append(1), lambda: None, seconds=0, least_run_ns=2e6, clock=lambda: next(clock)
    )
    assert len(done) == 2 + MIN_RUNS
