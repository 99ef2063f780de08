"""What happened to a job, in order; for people and for event streams."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, literal, select

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
