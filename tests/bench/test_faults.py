"""Processes of a service are killed, on both databases, and nothing is lost or shown to others."""

from __future__ import annotations

import pytest

from bench.faults import run


@pytest.mark.parametrize(
    "own_postgresql",
    [False, pytest.param(True, marks=pytest.mark.long)],
    ids=["sqlite", "postgresql"],
)
def test_no_job_is_lost_and_none_ends_twice(own_postgresql: bool) -> None:
    found = run(4, database=None, own_postgresql=own_postgresql, seed=1, pause_s=0.5)
    assert found["accepted"] > 0
    assert found["refused"] > 0
    assert sum(found["attempts"].values()) == found["accepted"]
    assert not any(found["wrongs"].values()), found["wrongs"]
