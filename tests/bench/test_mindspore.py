"""MindSpore's recorded strategies and ours, put through one judge: ours is never worse."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.mindspore import compared, is_worse, line
from bench.mindspore_strategies import Recorded, recorded

QUICK = [
    case
    for case in recorded()
    if case.devices == 8 and case.model in ("mlp", "reid", "widedeep", "wide-deep")
]


@pytest.mark.rotating
@pytest.mark.parametrize("case", QUICK, ids=lambda case: f"{case.name}: {case.found_by[0]}")
def test_ours_is_never_worse(case: Recorded) -> None:
    row = compared(case)
    assert row.given.dropped == ()
    assert row.ranked is not None
    assert not is_worse(row)
    assert row.theirs.objective_ns <= row.ranked.objective_ns * (1 + 1e-9)
    assert line(row).startswith(case.name)


def test_a_row_says_where_ours_is_worse() -> None:
    rows = map(compared, QUICK)
    row = next(row for row in rows if row.ours.objective_ns < row.theirs.objective_ns)
    swapped = replace(row, ours=row.theirs, theirs=row.ours)
    assert is_worse(swapped)
    assert is_worse(replace(row, ours_fitting=None))
    assert not is_worse(replace(row, theirs_fitting=None))
