"""Durations as text: a number of seconds, or an integer with a unit."""

from __future__ import annotations

import re

MAX_AGE_S = 10**9  # 31 years; chosen: the largest age of a stored answer that a request may name
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DIGITS = {"s": 9, "m": 7, "h": 5, "d": 4, "w": 3}  # so many, and it is below MAX_AGE_S
PATTERN = "^(" + "|".join(f"[0-9]{{1,{n}}}{unit}" for unit, n in _DIGITS.items()) + ")$"


def seconds_of(value: object) -> object:
    """The seconds of a duration such as `12h` or `7d`; any other value as it is."""
    if isinstance(value, str) and re.fullmatch(PATTERN, value, re.ASCII):
        return int(value[:-1]) * _SECONDS[value[-1]]
    return value
