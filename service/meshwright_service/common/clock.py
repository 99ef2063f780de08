"""Times on the database's clock, which may be set forward or back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, and_
from sqlalchemy.orm import InstrumentedAttribute

REACH = 2  # chosen: maximum ratio of the lease durations of two processes


def is_ahead(
    moment: InstrumentedAttribute[Any], now: ColumnElement[float], within_s: float
) -> ColumnElement[bool]:
    """SQL condition: a time that was set at most `within_s` ahead is in the future.

    A time further ahead was set before the clock was set back. It counts as past; a waiter would
    otherwise wait for the whole correction of the clock.
    """
    return and_(moment > now, moment <= now + REACH * within_s)


def time_of(seconds: float) -> str:
    """Seconds since 1970 as RFC 3339 text in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
