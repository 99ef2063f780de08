"""Time ranges that filter lists."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Query
from pydantic import AwareDatetime, BeforeValidator
from sqlalchemy import ColumnElement
from sqlalchemy.orm import InstrumentedAttribute


@dataclass(frozen=True, slots=True)
class Period:
    """The half-open range from `since` to `until`; None for no bound."""

    since: datetime | None = None
    until: datetime | None = None

    def conditions(self, column: InstrumentedAttribute[float]) -> Iterable[ColumnElement[bool]]:
        """SQL conditions on a column of seconds since 1970."""
        if self.since is not None:
            yield column >= self.since.timestamp()
        if self.until is not None:
            yield column < self.until.timestamp()


ALWAYS = Period()
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def _date_first(value: object) -> object:
    """Reject a bare number, which Pydantic reads as seconds or milliseconds since 1970."""
    if isinstance(value, str) and not DATE.match(value):
        raise ValueError("a moment begins with its date, as in 2026-11-23T00:00:00Z")
    return value


Moment = Annotated[
    AwareDatetime | None,
    BeforeValidator(_date_first),
    Query(description="RFC 3339, with a zone: 2026-11-23T00:00:00Z"),
]


def read_period(since: Moment = None, until: Moment = None) -> Period:
    """The period of the query parameters."""
    return Period(since, until)


During = Annotated[Period, Depends(read_period)]
