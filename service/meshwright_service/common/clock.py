"""Moments on the database's clock, which somebody may set forward or back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, and_
from sqlalchemy.orm import InstrumentedAttribute

REACH = 2  # chosen: processes may differ so much in how long their leases last


def is_ahead(
    moment: InstrumentedAttribute[Any], now: ColumnElement[float], within_s: float
) -> ColumnElement[bool]:
    """Whether a moment is to come that was set at most `within_s` ahead.

    One further ahead was set before the clock was set back: it counts as past, or what waits for it
    would wait for as long as the clock was wrong.
    """
    return and_(moment > now, moment <= now + REACH * within_s)


def time_of(seconds: float) -> str:
    """Seconds since 1970 as RFC 3339 text in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
