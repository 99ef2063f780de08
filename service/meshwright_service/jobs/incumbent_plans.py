"""Incumbent plans: the best plan so far of a running search, for a search that ends without a plan.

An incumbent plan is a row of its job, not a document, so the API does not show it. It becomes a
document if the job ends with it, and is deleted at the end of the search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from meshwright.schema import Budget
from meshwright_service.common.clock import is_ahead
from meshwright_service.common.tenant import Tenant
from meshwright_service.jobs import events
from meshwright_service.store import documents
from meshwright_service.store.document_locks import referring
from meshwright_service.store.encoded_documents import FIELDS, StoredDocument, StoredPlan
from meshwright_service.store.tables import JobRow, KeptRow


@dataclass(frozen=True, slots=True)
class IncumbentPlan:
    """An incumbent plan. attempt: the attempt that found it. seconds: as in `Answer`."""

    attempt: int
    plan: StoredPlan
    seconds: Sequence[float]

    @property
    def search_columns(self) -> dict[str, Any]:
        """The columns of a job that ends with this plan."""
        return {"seconds": list(self.seconds), "ended_early": True}


def keep(
    connection: Connection, job: str, incumbent: IncumbentPlan, *, now: ColumnElement[float]
) -> None:
    """Store the incumbent plan, unless that of an earlier attempt is as fast.

    The caller's transaction holds the lock of the job.
    """
    previous = of(connection, job)
    attempt, step_ns = incumbent.attempt, incumbent.plan.step_ns
    if previous and previous.attempt < attempt and previous.plan.step_ns <= step_ns:
        return
    document = incumbent.plan.document
    about = {name: getattr(document, name) for name in FIELDS}
    values = {
        "attempt": incumbent.attempt,
        "at": now,
        "seconds": list(incumbent.seconds),
        "about": {**about, "columns": incumbent.plan.columns},
        "body": document.body,
    }
    known = update(KeptRow).where(KeptRow.job == job).values(**values)
    if not connection.execute(known).rowcount:
        connection.execute(insert(KeptRow).values(job=job, **values))


def of(connection: Connection, job: str) -> IncumbentPlan | None:
    """The incumbent plan of a job, or None."""
    row = connection.execute(select(KeptRow.__table__).where(KeptRow.job == job)).first()
    if row is None:
        return None
    about = dict(row.about)
    columns = about.pop("columns")
    document = StoredDocument(body=row.body, **about)
    return IncumbentPlan(row.attempt, StoredPlan(document, columns), row.seconds)


def earlier(
    connection: Connection, job: str, attempt: int, options: Mapping[str, Any], plan: StoredPlan
) -> IncumbentPlan | None:
    """The incumbent plan of an earlier attempt if it is faster than the plan of this attempt.

    The difference must exceed the slowdown that the budget allows for a simpler plan.
    """
    incumbent = of(connection, job)
    if incumbent is None or incumbent.attempt >= attempt:
        return None
    simplicity = Budget.model_validate(options.get("budget", {})).simplicity
    return incumbent if incumbent.plan.step_ns * (1 + simplicity) < plan.step_ns else None


def forget(connection: Connection, job: str) -> None:
    """Delete the incumbent plan of a job whose search has ended."""
    connection.execute(delete(KeptRow).where(KeptRow.job == job))


def settle(connection: Connection, job: str, *, now: ColumnElement[float]) -> None:
    """Answer a cancelled job, whose search has ended, with its incumbent plan."""
    mine = JobRow.id == job, JobRow.state == "cancelled"
    cancelled = select(JobRow.tenant, JobRow.key, JobRow.attempt, JobRow.plan).where(*mine)
    row = connection.execute(cancelled.with_for_update()).first()
    if row is None:
        return
    incumbent = of(connection, job)
    if incumbent is None:
        return
    if row.plan is None:
        documents.put_plan(connection, Tenant(row.tenant), incumbent.plan, now=now, key=row.key)
        plan = incumbent.plan
        columns = {"plan": plan.id, "outcome": plan.outcome, **incumbent.search_columns}
        connection.execute(update(JobRow).where(*mine).values(lease_until=None, **columns))
        events.note(connection, job, row.attempt, {"plan": plan.id}, now=now)
    forget(connection, job)


def settle_expired(connection: Connection, *, now: ColumnElement[float], lease_s: float) -> None:
    """Settle all cancelled jobs whose leases have expired."""
    held = is_ahead(JobRow.lease_until, now, lease_s)
    abandoned = select(JobRow.id).join(KeptRow, KeptRow.job == JobRow.id)
    abandoned = abandoned.where(JobRow.state == "cancelled", JobRow.lease_until.is_(None) | ~held)
    jobs = connection.execute(abandoned).scalars().all()
    if jobs:
        referring(connection)  # before the row locks
    for job in jobs:
        settle(connection, job, now=now)
