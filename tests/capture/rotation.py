"""Cases of which `make test` takes a fifth, by the day, and `make test-long` all.

The number of the fifth is in the name of the test, and ARCHITECTURES_FIFTH sets it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import Any

import pytest

FIFTHS = 5
FIFTH = int(os.environ.get("ARCHITECTURES_FIFTH", date.today().toordinal() % FIFTHS))


def values_of_session(request: pytest.FixtureRequest, parameter: str) -> list[Any]:
    """The values of a parameter in the tests of this file that the session runs."""
    return [
        item.callspec.params[parameter]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path
        if hasattr(item, "callspec") and parameter in item.callspec.params
    ]


def rotating(cases: Iterable[Any], name_of: Callable[[Any], str]) -> Iterator[Any]:
    """The cases as parameters; those outside of the day's fifth are long."""
    for place, case in enumerate(cases):
        fifth = place % FIFTHS
        marks = [] if fifth == FIFTH else [pytest.mark.long]
        yield pytest.param(case, id=f"{name_of(case)}-fifth-{fifth}", marks=marks)
