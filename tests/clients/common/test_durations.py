"""Durations: a number of seconds, or an integer with a unit."""

from __future__ import annotations

import re
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from meshwright.common.durations import MAX_AGE_S, PATTERN, seconds_of

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@given(st.integers(0, 999), st.sampled_from(sorted(UNITS)))
def test_a_number_with_a_unit_is_so_many_seconds(number: int, unit: str) -> None:
    expected = timedelta(**{UNITS[unit]: number}).total_seconds()
    assert seconds_of(f"{number}{unit}") == expected


@given(st.from_regex(re.compile(PATTERN, re.ASCII), fullmatch=True))
def test_every_duration_is_within_the_limit(text: str) -> None:
    value = seconds_of(text)
    assert isinstance(value, int)
    assert 0 <= value <= MAX_AGE_S


@given(st.one_of(st.text(), st.floats(), st.none()))
def test_other_values_stay(value: object) -> None:
    if not (isinstance(value, str) and re.fullmatch(PATTERN, value, re.ASCII)):
        assert seconds_of(value) is value
