"""Leases of jobs: what a worker may do with the one that it has claimed.

A job that verifies has its plan as soon as that is found, and keeps it whatever comes after: the
next attempt only verifies.

Every change is one UPDATE that names the state, and the attempt, that it leaves. Where no row
changed, the job is not the caller's any more: it ends its search and writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select, update

from meshwright.schema import Certificate, Infeasible, MeshwrightError, Plan, Progress
from service import certificates, documents, job_events
from service.database import Database
from service.errors import WorkerLost
from service.jobs import FINAL
from service.tables import JobRow


@dataclass(frozen=True, slots=True)
class Claim:
    """A job leased to a worker. `attempt` is the fence. plan: found already, to be verified."""

    job: str
    attempt: int
    asked: dict[str, Any]
    plan: str | None = None


class Leases:
    """The leases of one database's jobs. Safe to share between threads and processes."""

    def __init__(self, database: Database, *, lease_s: float = 15, max_losses: int = 3) -> None:
        self._database = database
        self._lease_s = lease_s
        self._max_losses = max_losses

    def claim(self, worker: str) -> Claim | None:
        """Lease the oldest runnable job, or None. At most one worker ever holds an attempt."""
        with self._database.writing() as connection:
            self._give_up(connection)
            oldest = (
                select(JobRow.id)
                .where(or_(JobRow.state == "queued", self._lapsed()))
                .order_by(JobRow.created, JobRow.id)
                .limit(1)
                .with_for_update(skip_locked=True)
                .scalar_subquery()
            )
            row = connection.execute(
                update(JobRow)
                .where(JobRow.id == oldest)
                .values(
                    state="running",
                    attempt=JobRow.attempt + 1,
                    losses=JobRow.losses + case((JobRow.state == "running", 1), else_=0),
                    worker=worker,
                    lease_until=self._database.now + self._lease_s,
                    started=func.coalesce(JobRow.started, self._database.now),
                )
                .returning(JobRow.id, JobRow.attempt, JobRow.asked, JobRow.plan)
            ).first()
            if row is None:
                return None
            self._note(connection, row.id, row.attempt, {"state": "running", "worker": worker})
        return Claim(row.id, row.attempt, row.asked, row.plan)

    def renew(self, claim: Claim) -> bool:
        """Prolong the lease; False where the job is not ours any more."""
        with self._database.writing() as connection:
            return self._change(connection, claim, lease_until=self._database.now + self._lease_s)

    def holds(self, claim: Claim) -> bool:
        """Whether the job is still ours; reads only."""
        with self._database.reading() as connection:
            return connection.execute(select(JobRow.id).where(_ours(claim))).first() is not None

    def progress(self, claim: Claim, progress: Progress) -> bool:
        """Store how far the search is; False where the job is not ours any more."""
        body = progress.model_dump(mode="json", exclude_none=True)
        with self._database.writing() as connection:
            ours = self._change(connection, claim, progress=body)
            if ours:
                self._note(connection, claim.job, claim.attempt, {"progress": body})
            return ours

    def succeed(
        self, claim: Claim, plan: Plan, *, seconds: Sequence[float] = (), ended_early: bool = False
    ) -> Literal["ended", "to verify", "not ours"]:
        """Store the plan, and end the job unless its plan is to be verified; all or nothing.

        seconds, ended_early: as of an Answer.
        """
        found: dict[str, Any] = {"outcome": plan.search.outcome, "plan": plan.id}
        found |= {"seconds": list(seconds), "ended_early": ended_early}
        with self._database.writing() as connection:
            asked = select(JobRow.verify).where(_ours(claim)).with_for_update()
            verify = connection.execute(asked).scalar()
            if verify is None:
                return "not ours"
            documents.put_plan(connection, plan, now=self._database.now)
            if not verify:
                self._end(connection, claim, "succeeded", **found)
                return "ended"
            self._change(connection, claim, **found)
            self._note(connection, claim.job, claim.attempt, {"plan": plan.id})
            return "to verify"

    def certify(self, claim: Claim, certificate: Certificate, *, trace: str | None = None) -> bool:
        """Store the certificate of the job's plan and end the job, both or neither."""
        done = Progress(phase="verifying", done=1, total=1)
        with self._database.writing() as connection:
            ours = self._end(
                connection,
                claim,
                "succeeded",
                certificate=certificate.to_dict(),
                progress=done.model_dump(mode="json", exclude_none=True),
                trace=trace,
            )
            if ours:
                certificates.put(connection, certificate, now=self._database.now)
            return ours

    def succeed_without_plan(self, claim: Claim, infeasible: Infeasible) -> bool:
        """End the job: no plan fits, and why."""
        with self._database.writing() as connection:
            body = infeasible.model_dump(mode="json", exclude_none=True)
            return self._end(connection, claim, "succeeded", outcome="infeasible", infeasible=body)

    def fail(self, claim: Claim, error: MeshwrightError, *, trace: str | None = None) -> bool:
        """End the job with a problem; `trace` is for the operator."""
        with self._database.writing() as connection:
            return self._end(
                connection,
                claim,
                "failed",
                problem=error.problem(instance=f"/v1/jobs/{claim.job}"),
                trace=trace,
            )

    def release(self, claim: Claim) -> bool:
        """Queue the job again: this worker stops."""
        with self._database.writing() as connection:
            return self._end(connection, claim, "queued")

    def lost(self, claim: Claim, *, trace: str) -> bool:
        """The search ended without a word: queue the job again, or give it up."""
        with self._database.writing() as connection:
            ours = self._end(connection, claim, "queued", losses=JobRow.losses + 1, trace=trace)
            self._give_up(connection)
            return ours

    def _lapsed(self) -> ColumnElement[bool]:
        return and_(JobRow.state == "running", JobRow.lease_until < self._database.now)

    def _give_up(self, connection: Connection) -> None:
        """Fail the jobs whose searches were lost too often; a lapsed lease is a loss to come."""
        losses = JobRow.losses + case((JobRow.state == "running", 1), else_=0)
        error = WorkerLost(
            f"the search, or the execution of its plan, was lost {self._max_losses} times; it may "
            "need more memory than the worker has"
        )
        rows = connection.execute(
            update(JobRow)
            .where(or_(JobRow.state == "queued", self._lapsed()), losses >= self._max_losses)
            .values(
                state="failed",
                losses=losses,
                problem=error.problem(),
                finished=self._database.now,
                lease_until=None,
            )
            .returning(JobRow.id, JobRow.attempt)
        ).all()
        for row in rows:
            self._note(connection, row.id, row.attempt, {"state": "failed"})

    def _change(self, connection: Connection, claim: Claim, **values: Any) -> bool:
        return bool(
            connection.execute(update(JobRow).where(_ours(claim)).values(**values)).rowcount
        )

    def _end(self, connection: Connection, claim: Claim, state: str, **values: Any) -> bool:
        finished = self._database.now if state in FINAL else None
        ours = self._change(
            connection, claim, state=state, finished=finished, lease_until=None, **values
        )
        if ours:
            self._note(connection, claim.job, claim.attempt, {"state": state})
        return ours

    def _note(self, connection: Connection, job: str, attempt: int, body: Any) -> None:
        job_events.note(connection, job, attempt, body, now=self._database.now)


def _ours(claim: Claim) -> ColumnElement[bool]:
    return and_(JobRow.id == claim.job, JobRow.attempt == claim.attempt, JobRow.state == "running")
