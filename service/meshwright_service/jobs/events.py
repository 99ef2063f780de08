"""Job events: the ordered log of a job, for its clients, event streams, logs and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, insert, literal, select

from meshwright_service.store.database import tell
from meshwright_service.store.tables import JobEventRow, JobRow


@dataclass(frozen=True, slots=True)
class JobChange:
    """A committed state change of a job, for logs and metrics.

    outcome: the outcome of the search of an ended job, or the slug of its problem. verdict: the
    outcome of the certificate. is_lost: an attempt ended without an answer. waited_s: from the
    submission to the first attempt. ran_s: from the first attempt to the end.
    """

    job: str
    tenant: str
    kind: str
    state: str
    attempt: int
    worker: str | None
    outcome: str
    verdict: str | None
    is_lost: bool
    waited_s: float | None
    ran_s: float | None


def note(
    connection: Connection,
    job: str,
    attempt: int,
    body: Any,
    *,
    now: ColumnElement[float],
    is_lost: bool = False,
) -> None:
    """Append an event to the log of a job, inside the caller's transaction.

    The listeners of the database receive a state change after the commit.
    """
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
    if "state" in body:
        tell(connection, _change(connection, job, body["state"], is_lost))


def after(connection: Connection, job: str, seq: int, limit: int) -> Sequence[Row[Any]]:
    """The events of a job after `seq`, in order; columns seq, at, attempt, body."""
    return connection.execute(
        select(JobEventRow.seq, JobEventRow.at, JobEventRow.attempt, JobEventRow.body)
        .where(JobEventRow.job == job, JobEventRow.seq > seq)
        .order_by(JobEventRow.seq)
        .limit(limit)
    ).all()


def _change(connection: Connection, job: str, state: str, is_lost: bool) -> JobChange:
    row = connection.execute(
        select(
            JobRow.tenant, JobRow.kind, JobRow.attempt, JobRow.worker, JobRow.outcome,
            JobRow.problem, JobRow.certificate, JobRow.created, JobRow.started, JobRow.finished,
        ).where(JobRow.id == job)
    ).one()  # fmt: skip
    first = state == "running" and row.attempt == 1
    over = row.finished is not None and row.started is not None
    problem = (row.problem or {}).get("type", "").rpartition(":")[2]
    return JobChange(
        job=job,
        tenant=row.tenant,
        kind=row.kind,
        state=state,
        attempt=row.attempt,
        worker=row.worker,
        outcome=(problem if state == "failed" else row.outcome) or "",
        verdict=(row.certificate or {}).get("outcome"),
        is_lost=is_lost,
        waited_s=max(0.0, row.started - row.created) if first else None,
        ran_s=max(0.0, row.finished - row.started) if over else None,
    )
