"""MindSpore's recorded strategies and ours, put through one judge: ours is never worse."""

from __future__ import annotations

import pytest

from bench.mindspore import compared, line
from bench.mindspore_strategies import Recorded, recorded

QUICK = [
    case
    for case in recorded()
    if case.devices == 8 and case.model in ("mlp", "reid", "widedeep", "wide-deep")
]


@pytest.mark.parametrize("case", QUICK, ids=lambda case: f"{case.name}: {case.found_by[0]}")
def test_ours_is_never_worse(case: Recorded) -> None:
    row = compared(case)
    assert row.given.dropped == ()
    assert row.ranked is not None
    assert row.ours.step_ns <= row.theirs.step_ns * (1 + 1e-9)
    assert row.theirs.step_ns <= row.ranked.step_ns * (1 + 1e-9)
    if row.theirs_fitting is not None:
        assert row.ours_fitting is not None
        assert row.ours_fitting.step_ns <= row.theirs_fitting.step_ns * (1 + 1e-9)
    assert line(row).startswith(case.name)
