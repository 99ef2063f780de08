"""A stretch of time to which lists are cut."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Query
from pydantic import AwareDatetime
from sqlalchemy import ColumnElement
from sqlalchemy.orm import InstrumentedAttribute


@dataclass(frozen=True, slots=True)
class Period:
    """From `since` to before `until`; None for no end on that side."""

    since: datetime | None = None
    until: datetime | None = None

    def conditions(self, column: InstrumentedAttribute[float]) -> Iterable[ColumnElement[bool]]:
        """Of a column of seconds since 1970."""
        if self.since is not None:
            yield column >= self.since.timestamp()
        if self.until is not None:
            yield column < self.until.timestamp()


ALWAYS = Period()
Moment = Annotated[
    AwareDatetime | None, Query(description="RFC 3339, with a zone: 2026-11-23T00:00:00Z")
]


def read_period(since: Moment = None, until: Moment = None) -> Period:
    """The period of a request for a list."""
    return Period(since, until)


During = Annotated[Period, Depends(read_period)]
