from __future__ import annotations

import numpy as np
import pytest

from meshwright_solver.search.core.live_intervals import Timeline


def test_only_moments_before_an_end_are_kept() -> None:
    # 0: [0, 4), 1: [1, 3), 2: [3, 5), 3: [2, 2)  ->  live {0}, {0, 1}, {0, 2}: times 1 and 3 matter
    timeline = Timeline.of(np.array([[0, 4], [1, 3], [3, 5], [2, 2]]))
    assert timeline.moments == 2
    assert timeline.first.tolist()[:3] == [0, 0, 1]
    assert timeline.last.tolist()[:3] == [2, 1, 2]
    assert timeline.profile(np.array([1.0, 10.0, 100.0, 1000.0])).tolist() == [11.0, 101.0]


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(50))
def test_the_peak_is_that_of_all_times(seed: int) -> None:
    random = np.random.default_rng(seed)
    starts = random.integers(0, 12, 8)
    lifetimes = np.stack([starts, starts + random.integers(0, 6, 8)], axis=1)
    taken = random.integers(0, 100, 8).astype(np.float64)
    peak = max(
        sum(taken[n] for n, (start, end) in enumerate(lifetimes) if start <= time < end)
        for time in range(20)
    )
    assert Timeline.of(lifetimes).peak(taken) == peak
