"""Leases of jobs: what a worker, or an agent, may do with the one that it has claimed.

Workers claim searches, agents measurements; all else is the same for both. A job that verifies has
its plan as soon as that is found, and keeps it whatever comes after: the next attempt only
verifies.

A search that ends without an answer ends its job with the best plan that was kept of it
(`service.kept`), with the reason why there is no better one.

Every change is one UPDATE that names the state, and the attempt, that it leaves. Where no row
changed, the job is not the caller's any more: it ends its search and writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, and_, case, func, or_, select, update

from meshwright.schema import Calibration, Certificate, Infeasible, MeshwrightError, Progress
from meshwright.schema.samples import Samples
from service import calibrations, certificates, documents, job_events, kept
from service.agents import Agents
from service.clock import is_ahead
from service.database import Database
from service.errors import NoAgent, WorkerLost
from service.jobs import FINAL
from service.kept import Kept
from service.principals import Tenant
from service.stored import StoredPlan
from service.tables import JobRow, KeyRow
from service.turns import running_beside, served

SEARCHES = JobRow.kind == "plan"
WHY_LOST = {
    "plan": "the search, or the execution of its plan, was lost {} times; it may need more memory "
    "than the worker has",
    "measurement": "the measurement was lost {} times: its agent ended, lost a process or was not "
    "heard of in time",
}


NOT_ENDED = "an attempt before the last one did not come to its end, and had a"
HAD_A_FASTER = f"{NOT_ENDED} faster plan than that found"
HAD_ONE = f"{NOT_ENDED} plan, where that found none"


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


Ended = Literal["ended", "to verify", "not ours"]


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
                .order_by(running_beside(), served(), JobRow.created, JobRow.id)
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

    def keep(self, claim: Claim, plan: StoredPlan, seconds: Sequence[float] = ()) -> bool:
        """Keep the best plan so far; False where the job is not ours any more."""
        with self._database.writing() as connection:
            if _locked(connection, claim) is None:
                return False
            best = Kept(claim.attempt, plan, seconds)
            kept.keep(connection, claim.job, best, now=self._database.now)
            return True

    def succeed(
        self,
        claim: Claim,
        plan: StoredPlan,
        *,
        seconds: Sequence[float] = (),
        ended_early: bool = False,
    ) -> Ended:
        """Store the plan, or what an attempt before kept where that is faster, and end the job
        unless its plan is to be verified; all or nothing.

        seconds, ended_early: as of an Answer.
        """
        found: dict[str, Any] = {"seconds": list(seconds), "ended_early": ended_early}
        with self._database.writing() as connection:
            job = _locked(connection, claim)
            if job is None:
                return "not ours"
            earlier = kept.earlier(connection, claim.job, claim.attempt, claim.asked, plan)
            if earlier is not None:
                more = {**earlier.found, "problem": _problem(claim, WorkerLost(HAD_A_FASTER))}
                return self._answer(connection, claim, job, earlier.plan, **more)
            return self._answer(connection, claim, job, plan, **found)

    def found(self, claim: Claim) -> str | None:
        """The plan of a job of ours that goes on; reads only."""
        with self._database.reading() as connection:
            return connection.execute(select(JobRow.plan).where(_ours(claim))).scalar()

    def _answer(
        self,
        connection: Connection,
        claim: Claim,
        job: Row[bool, str | None],
        plan: StoredPlan,
        **found: Any,
    ) -> Ended:
        """Store a plan and what a search says of it, and end the job unless it verifies.

        job: its row, which is locked.
        """
        found |= {"outcome": plan.outcome, "plan": plan.id}
        now = self._database.now
        documents.put_plan(connection, claim.tenant, plan, now=now, key=job.key)
        if not job.verify:
            self._end(connection, claim, "succeeded", **found)
            return "ended"
        self._change(connection, claim, **found)
        kept.forget(connection, claim.job)
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

    def succeed_without_plan(self, claim: Claim, infeasible: Infeasible) -> Ended:
        """End the job: no plan was found that fits, and why; where one was kept, with that."""
        body = infeasible.model_dump(mode="json", exclude_none=True)
        why = {"problem": _problem(claim, WorkerLost(f"{HAD_ONE}: {infeasible.detail}"))}
        return self._without(claim, "succeeded", why, outcome="infeasible", infeasible=body)

    def cut_short(self, claim: Claim, error: MeshwrightError, *, trace: str | None = None) -> Ended:
        """End the job with the plan that was kept and the problem why there is no better one;
        without a plan it fails with the problem. `trace` is for the operator."""
        why = {"problem": _problem(claim, error), "trace": trace}
        return self._without(claim, "failed", why, **why)

    def _without(self, claim: Claim, state: str, why: dict[str, Any], **values: Any) -> Ended:
        """End a search that has no plan of its own; where one was kept, with that, and why."""
        with self._database.writing() as connection:
            job = _locked(connection, claim)
            if job is None:
                return "not ours"
            best = kept.of(connection, claim.job)
            if best is None:
                self._end(connection, claim, state, **values)
                return "ended"
            return self._answer(connection, claim, job, best.plan, **best.found, **why)

    def fail(self, claim: Claim, error: MeshwrightError, *, trace: str | None = None) -> bool:
        """End the job with a problem; `trace` is for the operator."""
        with self._database.writing() as connection:
            return self._end(
                connection,
                claim,
                "failed",
                problem=_problem(claim, error),
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
        """End the jobs that were lost too often, and measurements that no agent could take.

        A lapsed lease is a loss to come.
        """
        kept.settle_left(connection, now=self._database.now, lease_s=self.lease_s)
        losses = JobRow.losses + case((JobRow.state == "running", 1), else_=0)
        waits = or_(JobRow.state == "queued", self._lapsed())
        left = self._agents.left_alone()
        rows = connection.execute(
            select(
                JobRow.id, JobRow.kind, JobRow.state, JobRow.attempt, JobRow.trace, JobRow.tenant,
                JobRow.key, JobRow.plan, JobRow.verify, losses.label("losses"),
            )
            .where(waits, or_(losses >= self._max_losses, left))
            .with_for_update(skip_locked=True)
        ).all()  # fmt: skip
        for row in rows:
            values = {
                "state": "failed",
                "losses": row.losses,
                "problem": self._why(row.kind, row.losses, row.trace).problem(),
                "finished": self._database.now,
                **self._rescued(connection, row),
            }
            connection.execute(
                update(JobRow)
                .where(JobRow.id == row.id, JobRow.attempt == row.attempt, waits)
                .values(lease_until=None, **values)
            )
            kept.forget(connection, row.id)
            if "plan" in values:
                self._note(connection, row.id, row.attempt, {"plan": values["plan"]})
            body, lapsed = {"state": values["state"]}, row.state == "running"
            self._note(connection, row.id, row.attempt, body, is_lost=lapsed)

    def _rescued(self, connection: Connection, row: Any) -> dict[str, Any]:
        """What becomes of a job that is given up where a plan was kept: that is its answer. Where
        it is yet to be verified, that may be lost as often again."""
        best = kept.of(connection, row.id)
        if best is None or row.plan is not None:
            return {}
        now, plan = self._database.now, best.plan
        documents.put_plan(connection, Tenant(row.tenant), plan, now=now, key=row.key)
        found = {"outcome": plan.outcome, "plan": plan.id, **best.found}
        if row.verify:
            return {"state": "queued", "losses": 0, "finished": None, **found}
        return {"state": "succeeded", **found}

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
            if state in FINAL:
                kept.forget(connection, claim.job)
            self._note(connection, claim.job, claim.attempt, {"state": state}, is_lost=is_lost)
        return ours

    def _note(
        self, connection: Connection, job: str, attempt: int, body: Any, *, is_lost: bool = False
    ) -> None:
        now = self._database.now
        job_events.note(connection, job, attempt, body, now=now, is_lost=is_lost)


def _problem(claim: Claim, error: MeshwrightError) -> dict[str, Any]:
    return error.problem(instance=f"/v1/jobs/{claim.job}")


def _locked(connection: Connection, claim: Claim) -> Row[bool, str | None] | None:
    """The row of a job that is ours, until the end of the transaction; else None."""
    own = select(JobRow.verify, JobRow.key).where(_ours(claim)).with_for_update()
    return connection.execute(own).first()


def _ours(claim: Claim) -> ColumnElement[bool]:
    return and_(JobRow.id == claim.job, JobRow.attempt == claim.attempt, JobRow.state == "running")
