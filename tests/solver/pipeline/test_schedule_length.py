"""A few rounds of a schedule tell how long all of it takes."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.schedules.kinds import schedule
from meshwright_solver.pipeline.schedule_length import pace_of
from meshwright_solver.pipeline.schedule_run import Durations, step_ns

KINDS = [("gpipe", 1), ("1f1b", 1), ("zb_h1", 1), ("interleaved_1f1b", 2), ("zb_v", 2)]


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("kind", "count"), KINDS)
@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 4), (4, 48), (8, 64)])
def test_it_is_near_the_run_of_all(
    kind: str, count: int, ranks: int, microbatches: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    stages = ranks * count
    forward, inputs, weights, once = random.uniform(0.8, 1.2, (4, stages))
    durations = Durations(forward, inputs, weights, random.uniform(0, 0.1, (2, stages - 1)))
    whole = step_ns(schedule(kind, ranks, microbatches, count), durations, once)
    pace = pace_of(kind, ranks, microbatches, count)
    assert sum(run.microbatches for run in pace.runs) <= max(5 * ranks, microbatches)
    assert pace.step_ns(durations, once) == pytest.approx(whole, rel=0.02)


def test_equal_stages_are_told_exactly() -> None:
    ones = np.ones(4)
    durations = Durations(ones, ones, ones, np.zeros((2, 3)))
    found = pace_of("1f1b", 4, 100, 1).step_ns(durations, ones)
    assert found == pytest.approx(100 * 3 + 3 * 3 + 1)
