"""What happened to a job, in order; for people and for event streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, insert, literal, select

from service.tables import JobEventRow


def note(
    connection: Connection, job: str, attempt: int, body: Any, *, now: ColumnElement[float]
) -> None:
    """Write down the next event of a job, inside the caller's transaction."""
    last = select(func.coalesce(func.max(JobEventRow.seq), 0)).where(JobEventRow.job == job)
    connection.execute(
        insert(JobEventRow).values(
            job=job,
            seq=last.scalar_subquery() + literal(1),
            at=now,
            attempt=attempt,
            body=body,
        )
    )


def after(connection: Connection, job: str, seq: int, limit: int) -> Sequence[Row[Any]]:
    """The events of a job from the one behind `seq`, in order: seq, at, attempt, body."""
    return connection.execute(
        select(JobEventRow.seq, JobEventRow.at, JobEventRow.attempt, JobEventRow.body)
        .where(JobEventRow.job == job, JobEventRow.seq > seq)
        .order_by(JobEventRow.seq)
        .limit(limit)
    ).all()
