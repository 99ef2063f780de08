"""Leases of jobs: what a worker, or an agent, may do with the one that it has claimed.

Workers claim searches, agents measurements; all else is the same for both. A job that verifies has
its plan as soon as that is found, and keeps it whatever comes after: the next attempt only
verifies.

Every change is one UPDATE that names the state, and the attempt, that it leaves. Where no row
changed, the job is not the caller's any more: it ends its search and writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select, update
from sqlalchemy.orm import aliased

from meshwright.schema import Calibration, Certificate, Infeasible, MeshwrightError, Progress
from meshwright.schema.samples import Samples
from service import calibrations, certificates, documents, job_events
from service.agents import Agents
from service.clock import is_ahead
from service.database import Database
from service.errors import NoAgent, WorkerLost
from service.jobs import FINAL
from service.principals import Tenant
from service.stored import StoredPlan
from service.tables import JobRow, KeyRow

SEARCHES = JobRow.kind == "plan"
WHY_LOST = {
    "plan": "the search, or the execution of its plan, was lost {} times; it may need more memory "
    "than the worker has",
    "measurement": "the measurement was lost {} times: its agent ended, lost a process or was not "
    "heard of in time",
}


@dataclass(frozen=True, slots=True)
class Claim:
    """A job leased to a worker. `attempt` is the fence. plan: found already, to be verified.

    tenant: whose job it is, and whose are its documents.
    """

    tenant: Tenant
    job: str
    attempt: int
    asked: dict[str, Any]
    plan: str | None = None


class Leases:
    """The leases of one database's jobs. Safe to share between threads and processes."""

    def __init__(
        self,
        database: Database,
        *,
        lease_s: float = 15,
        max_losses: int = 3,
        agents: Agents | None = None,
    ) -> None:
        self.lease_s = lease_s
        self._database = database
        self._max_losses = max_losses
        self._agents = agents or Agents(database)

    def has_work(self, what: ColumnElement[bool] = SEARCHES) -> bool:
        """Whether a claim would find a job; reads only."""
        runnable = or_(JobRow.state == "queued", self._lapsed())
        with self._database.reading() as connection:
            found = select(JobRow.id).where(what, runnable).limit(1)
            return connection.execute(found).first() is not None

    def claim(self, worker: str, what: ColumnElement[bool] = SEARCHES) -> Claim | None:
        """Lease a runnable job of these; None without. One at most holds an attempt.

        The oldest one of the key that has the fewest running and, of those, was served longest
        ago: who asks for a thousand plans does not keep the others waiting.
        """
        with self._database.writing() as connection:
            self._give_up(connection)
            oldest = connection.execute(
                select(JobRow.id, JobRow.state)
                .where(what, or_(JobRow.state == "queued", self._lapsed()))
                .order_by(_running_beside(), _served(), JobRow.created, JobRow.id)
                .limit(1)
                .with_for_update(skip_locked=True)
            ).first()
            if oldest is None:
                return None
            row = connection.execute(
                update(JobRow)
                .where(JobRow.id == oldest.id, JobRow.state == oldest.state)
                .values(
                    state="running",
                    attempt=JobRow.attempt + 1,
                    losses=JobRow.losses + case((JobRow.state == "running", 1), else_=0),
                    worker=worker,
                    lease_until=self._database.now + self.lease_s,
                    started=func.coalesce(JobRow.started, self._database.now),
                )
                .returning(
                    JobRow.tenant, JobRow.key, JobRow.id, JobRow.attempt, JobRow.asked, JobRow.plan
                )
            ).one()  # it is locked
            connection.execute(
                update(KeyRow).where(KeyRow.id == row.key).values(served=self._database.now)
            )
            began = {"state": "running", "worker": worker}
            lapsed = oldest.state == "running"
            self._note(connection, row.id, row.attempt, began, is_lost=lapsed)
        return Claim(Tenant(row.tenant), row.id, row.attempt, row.asked, row.plan)

    def renew(self, claim: Claim) -> bool:
        """Prolong the lease; False where the job is not ours any more."""
        with self._database.writing() as connection:
            return self._change(connection, claim, lease_until=self._database.now + self.lease_s)

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
        self,
        claim: Claim,
        plan: StoredPlan,
        *,
        seconds: Sequence[float] = (),
        ended_early: bool = False,
    ) -> Literal["ended", "to verify", "not ours"]:
        """Store the plan, and end the job unless its plan is to be verified; all or nothing.

        seconds, ended_early: as of an Answer.
        """
        found: dict[str, Any] = {"outcome": plan.outcome, "plan": plan.id}
        found |= {"seconds": list(seconds), "ended_early": ended_early}
        with self._database.writing() as connection:
            asked = select(JobRow.verify, JobRow.key).where(_ours(claim)).with_for_update()
            job = connection.execute(asked).first()
            if job is None:
                return "not ours"
            now = self._database.now
            documents.put_plan(connection, claim.tenant, plan, now=now, key=job.key)
            if not job.verify:
                self._end(connection, claim, "succeeded", **found)
                return "ended"
            self._change(connection, claim, **found)
            self._note(connection, claim.job, claim.attempt, {"plan": plan.id})
            return "to verify"

    def measured(self, claim: Claim, samples: Samples, calibration: Calibration) -> bool:
        """Store samples, their topology and the calibration, and end the job; all or nothing."""
        count = len(samples.kernels) + len(samples.collectives)
        done = Progress(phase="measured", done=count, total=count)
        with self._database.writing() as connection:
            ours = select(JobRow.id).where(_ours(claim)).with_for_update()
            if connection.execute(ours).first() is None:
                return False
            calibrations.put_samples(
                connection, claim.tenant, samples, calibration, now=self._database.now
            )
            return self._end(
                connection,
                claim,
                "succeeded",
                topology=samples.topology.id,
                samples=samples.id,
                calibration=calibration.id,
                progress=done.model_dump(mode="json", exclude_none=True),
            )

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
                certificates.put(connection, claim.tenant, certificate, now=self._database.now)
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
            more = {"losses": JobRow.losses + 1, "trace": trace}
            ours = self._end(connection, claim, "queued", is_lost=True, **more)
            self._give_up(connection)
            return ours

    def _lapsed(self) -> ColumnElement[bool]:
        held = is_ahead(JobRow.lease_until, self._database.now, self.lease_s)
        return and_(JobRow.state == "running", ~held)

    def _give_up(self, connection: Connection) -> None:
        """Fail the jobs that were lost too often, and measurements that no agent could take.

        A lapsed lease is a loss to come.
        """
        losses = JobRow.losses + case((JobRow.state == "running", 1), else_=0)
        waits = or_(JobRow.state == "queued", self._lapsed())
        left = self._agents.left_alone()
        rows = connection.execute(
            select(
                JobRow.id, JobRow.kind, JobRow.state, JobRow.attempt, JobRow.trace,
                losses.label("losses"),
            )
            .where(waits, or_(losses >= self._max_losses, left))
            .with_for_update(skip_locked=True)
        ).all()  # fmt: skip
        for row in rows:
            connection.execute(
                update(JobRow)
                .where(JobRow.id == row.id, JobRow.attempt == row.attempt, waits)
                .values(
                    state="failed",
                    losses=row.losses,
                    problem=self._why(row.kind, row.losses, row.trace).problem(),
                    finished=self._database.now,
                    lease_until=None,
                )
            )
            lapsed = row.state == "running"
            self._note(connection, row.id, row.attempt, {"state": "failed"}, is_lost=lapsed)

    def _why(self, kind: str, losses: int, trace: str | None) -> MeshwrightError:
        said = f"; the last word: {trace}" if trace and kind == "measurement" else ""
        if losses >= self._max_losses:
            return WorkerLost(WHY_LOST[kind].format(self._max_losses) + said)
        return NoAgent(
            f"no agent that could measure this was heard of for {self._agents.silent_s:g} s"
            f"{said}; begin one: meshwright agent --serve --server URL"
        )

    def _change(self, connection: Connection, claim: Claim, **values: Any) -> bool:
        return bool(
            connection.execute(update(JobRow).where(_ours(claim)).values(**values)).rowcount
        )

    def _end(
        self,
        connection: Connection,
        claim: Claim,
        state: str,
        *,
        is_lost: bool = False,
        **values: Any,
    ) -> bool:
        finished = self._database.now if state in FINAL else None
        ours = self._change(
            connection, claim, state=state, finished=finished, lease_until=None, **values
        )
        if ours:
            self._note(connection, claim.job, claim.attempt, {"state": state}, is_lost=is_lost)
        return ours

    def _note(
        self, connection: Connection, job: str, attempt: int, body: Any, *, is_lost: bool = False
    ) -> None:
        now = self._database.now
        job_events.note(connection, job, attempt, body, now=now, is_lost=is_lost)


def _running_beside() -> ColumnElement[int]:
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


def _served() -> ColumnElement[float]:
    """Of a job: when one of its key was last begun; 0 without keys, or where none was."""
    last = select(KeyRow.served).where(KeyRow.id == JobRow.key).scalar_subquery()
    return func.coalesce(last, 0.0)


def _ours(claim: Claim) -> ColumnElement[bool]:
    return and_(JobRow.id == claim.job, JobRow.attempt == claim.attempt, JobRow.state == "running")
