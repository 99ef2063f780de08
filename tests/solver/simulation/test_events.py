"""The run of events: by hand, and against a slow run that looks at every moment."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright_solver.simulation.events import NOBODY, Lines, run

# streams: 0 with lane 0; 1 with lanes 1 and 2, of which 1 goes first
STREAM_OF = np.array([0, 1, 1])
LANES = np.array([[0, -1], [1, 2]])


def lines(tasks: list[tuple[int, float]], needs: list[tuple[int, int]]) -> Lines:
    """tasks: (lane, ns); needs: (task, what it needs)."""
    pairs = np.array(needs, dtype=np.int64).reshape(-1, 2)
    return Lines(
        np.array([ns for _, ns in tasks]),
        np.array([lane for lane, _ in tasks]),
        STREAM_OF,
        LANES,
        pairs[:, 1],
        pairs[:, 0],
    )


def test_a_lane_keeps_its_order_and_what_is_urgent_goes_first() -> None:
    """Tasks 2 and 3 (lane 2) could begin at 0; task 1 (lane 1) is ready at 4, while 2 runs until 6,
    and goes before 3; task 4 needs 3."""
    made = run(lines([(0, 4.0), (1, 1.0), (2, 6.0), (2, 2.0), (0, 1.0)], [(1, 0), (4, 3)]))
    assert made.starts.tolist() == [0.0, 6.0, 0.0, 7.0, 9.0]
    assert made.ends.tolist() == [4.0, 7.0, 6.0, 9.0, 10.0]
    assert made.cause.tolist() == [NOBODY, 2, NOBODY, 1, 3]


def test_tasks_without_length_take_no_time_and_keep_the_order() -> None:
    made = run(lines([(0, 0.0), (0, 0.0), (1, 3.0), (0, 1.0)], [(2, 1), (3, 2)]))
    assert made.starts.tolist() == [0.0, 0.0, 0.0, 3.0]


def test_tasks_that_wait_for_each_other_are_named() -> None:
    with pytest.raises(ValueError, match="the first that never runs is 1"):
        run(lines([(0, 1.0), (0, 1.0), (1, 1.0)], [(1, 2), (2, 1)]))


def slow_run(own: Lines) -> list[float]:
    """Starts, found moment by moment."""
    count = len(own.ns)
    starts, ends = [np.inf] * count, [np.inf] * count
    needs = [own.source[own.target == task].tolist() for task in range(count)]
    while np.inf in starts:
        now = min(
            moment
            for moment in [0.0, *ends]
            if moment < np.inf and _next(own, needs, starts, ends, moment)
        )
        for task in _next(own, needs, starts, ends, now)[:1]:
            starts[task], ends[task] = now, now + own.ns[task]
    return starts


def _next(
    own: Lines, needs: list[list[int]], starts: list[float], ends: list[float], now: float
) -> list[int]:
    """What can start at a moment: of each free stream the first lane's first."""
    found = []
    for stream, lanes in enumerate(own.lanes):
        here = [t for t in range(len(starts)) if own.stream_of[own.lane[t]] == stream]
        if any(starts[t] < np.inf and ends[t] > now for t in here):
            continue
        for lane in lanes[lanes >= 0]:
            waiting = [t for t in here if own.lane[t] == lane and starts[t] == np.inf]
            if waiting and all(ends[t] <= now for t in needs[waiting[0]]):
                found.append(waiting[0])
                break
    return found


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(40))
def test_random_tasks_run_as_in_the_slow_run(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(3, 25))
    tasks = [
        (int(lane), float(ns))
        for lane, ns in zip(random.integers(0, 3, count), random.random(count) + 0.1, strict=True)
    ]
    needs = [
        (task, int(other))
        for task in range(1, count)
        for other in random.integers(0, task, random.integers(0, 3))
    ]
    made = lines(tasks, sorted(set(needs)))
    found = run(made)
    assert found.starts.tolist() == slow_run(made)
    # what let a task start ended when it started
    late = found.cause != NOBODY
    assert (found.ends[found.cause[late]] == found.starts[late]).all()
    assert (found.starts[~late] == 0).all()
