"""The best plan so far of a search, for when that ends without a last word.

It is a row beside its job and no document: nobody is shown a plan that no job answers with. Where
the job has to answer with it, it becomes a document like any other; with the end of the search it
goes.
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
class KeptPlan:
    """attempt: whose search had it. seconds: as of an Answer."""

    attempt: int
    plan: StoredPlan
    seconds: Sequence[float]

    @property
    def found(self) -> dict[str, Any]:
        """What a job that answers with it says of its search."""
        return {"seconds": list(self.seconds), "ended_early": True}


def keep(connection: Connection, job: str, kept: KeptPlan, *, now: ColumnElement[float]) -> None:
    """Keep a plan unless what an earlier attempt kept is as fast.

    The caller's transaction has locked the job, so that one at a time keeps.
    """
    before = of(connection, job)
    own = kept.attempt, kept.plan.step_ns
    if before is not None and before.attempt < own[0] and before.plan.step_ns <= own[1]:
        return
    document = kept.plan.document
    about = {name: getattr(document, name) for name in FIELDS}
    values = {
        "attempt": kept.attempt,
        "at": now,
        "seconds": list(kept.seconds),
        "about": {**about, "columns": kept.plan.columns},
        "body": document.body,
    }
    known = update(KeptRow).where(KeptRow.job == job).values(**values)
    if not connection.execute(known).rowcount:
        connection.execute(insert(KeptRow).values(job=job, **values))


def of(connection: Connection, job: str) -> KeptPlan | None:
    """What is kept of a job's searches."""
    row = connection.execute(select(KeptRow.__table__).where(KeptRow.job == job)).first()
    if row is None:
        return None
    about = dict(row.about)
    columns = about.pop("columns")
    document = StoredDocument(body=row.body, **about)
    return KeptPlan(row.attempt, StoredPlan(document, columns), row.seconds)


def earlier(
    connection: Connection, job: str, attempt: int, asked: Mapping[str, Any], plan: StoredPlan
) -> KeptPlan | None:
    """What an attempt before this one kept, where that is faster than its plan by more than this
    one may have given up for being simpler."""
    found = of(connection, job)
    if found is None or found.attempt >= attempt:
        return None
    simplicity = Budget.model_validate(asked.get("budget", {})).simplicity
    return found if found.plan.step_ns * (1 + simplicity) < plan.step_ns else None


def forget(connection: Connection, job: str) -> None:
    """The search has ended."""
    connection.execute(delete(KeptRow).where(KeptRow.job == job))


def settle(connection: Connection, job: str, *, now: ColumnElement[float]) -> None:
    """Give a cancelled job of which nothing more will come what was kept, if it has no plan."""
    mine = JobRow.id == job, JobRow.state == "cancelled"
    own = select(JobRow.tenant, JobRow.key, JobRow.attempt, JobRow.plan).where(*mine)
    row = connection.execute(own.with_for_update()).first()
    if row is None:
        return
    found = of(connection, job)
    if found is None:
        return
    if row.plan is None:
        documents.put_plan(connection, Tenant(row.tenant), found.plan, now=now, key=row.key)
        has = {"plan": found.plan.id, "outcome": found.plan.outcome, **found.found}
        connection.execute(update(JobRow).where(*mine).values(lease_until=None, **has))
        events.note(connection, job, row.attempt, {"plan": found.plan.id}, now=now)
    forget(connection, job)


def settle_left(connection: Connection, *, now: ColumnElement[float], lease_s: float) -> None:
    """The same of all cancelled jobs whose workers are gone."""
    held = is_ahead(JobRow.lease_until, now, lease_s)
    left = select(JobRow.id).join(KeptRow, KeptRow.job == JobRow.id)
    left = left.where(JobRow.state == "cancelled", JobRow.lease_until.is_(None) | ~held)
    jobs = connection.execute(left).scalars().all()
    if jobs:
        referring(connection)  # before the rows of jobs that have ended
    for job in jobs:
        settle(connection, job, now=now)
