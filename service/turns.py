"""Whose turn it is: of the key that has the fewest jobs running and was served longest ago."""

from __future__ import annotations

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import aliased

from service.tables import JobRow, KeyRow


def running_beside() -> ColumnElement[int]:
    """Of a job: how many of its key, or of its tenant without keys, run."""
    beside = aliased(JobRow)
    return (
        select(func.count())
        .where(
            beside.state == "running",
            beside.kind == JobRow.kind,
            beside.tenant == JobRow.tenant,
            beside.key.is_not_distinct_from(JobRow.key),
        )
        .scalar_subquery()
    )


def served() -> ColumnElement[float]:
    """Of a job: when one of its key was last begun; 0 without keys, or where none was."""
    last = select(KeyRow.served).where(KeyRow.id == JobRow.key).scalar_subquery()
    return func.coalesce(last, 0.0)
