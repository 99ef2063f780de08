"""Plans of a few examples are what they were: they change on purpose, with the file."""

from __future__ import annotations

import json

import pytest

from tests.golden.plans import CASES, FILE, golden

KNOWN = json.loads(FILE.read_text())
ROUNDING = 1e-6  # of times: other processors add in another order


@pytest.mark.parametrize("name", CASES)
def test_a_plan_is_what_it_was(name: str) -> None:
    found, known = golden(CASES[name]), KNOWN[name]
    remedy = "where that is on purpose: python -m tests.golden.plans"
    for field in ("step_ns", "objective_ns"):
        assert found.pop(field) == pytest.approx(known.pop(field), rel=ROUNDING), remedy
    assert found == known, remedy


def test_the_file_has_every_case() -> None:
    assert KNOWN.keys() == CASES.keys()
