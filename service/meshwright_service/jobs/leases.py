"""Leases: a worker or an agent claims a job, holds its lease, and ends the job.

Workers claim searches and agents claim measurements (`meshwright_service.jobs.kinds`); leases of
both work alike. A job that verifies stores its plan before the verification, so that the next
attempt only verifies.

A search that ends without an answer ends its job with its incumbent plan
(`meshwright_service.jobs.incumbent_plans`) and a problem that states the reason.

Each change is one UPDATE whose condition names the state and the attempt. If it changes no row, the
caller has lost the lease: it ends its search and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from sqlalchemy import ColumnElement, Connection, Row, and_, func, or_, select, update

from meshwright.schema import Calibration, Certificate, Infeasible, MeshwrightError, Progress
from meshwright.schema.cost_graph import CostGraphProgress
from meshwright.schema.samples import Samples
from meshwright_service.common.errors import WorkerLost
from meshwright_service.common.tenant import Tenant
from meshwright_service.jobs import events, incumbent_plans
from meshwright_service.jobs.agents import Agents
from meshwright_service.jobs.fair_share import fair_share, has_fewer_running
from meshwright_service.jobs.incumbent_plans import IncumbentPlan
from meshwright_service.jobs.jobs import FINAL
from meshwright_service.jobs.kinds import FOR_WORKERS, JobKind
from meshwright_service.jobs.losses import Losses, RetryLimits
from meshwright_service.store import calibrations, certificates, documents
from meshwright_service.store.database import Database
from meshwright_service.store.encoded_documents import StoredDocument, StoredPlan
from meshwright_service.store.tables import JobRow, KeyRow

NOT_ENDED = "an attempt before the last one did not come to its end, and had a"
HAD_A_FASTER = f"{NOT_ENDED} faster plan than that found"
HAD_ONE = f"{NOT_ENDED} plan, where that found none"


@dataclass(frozen=True, slots=True)
class Claim:
    """A job leased to a worker or an agent.

    tenant: owner of the job and of its documents. attempt: the fencing token. asked: the options of
    the request. plan: a plan to verify, if it was found before. yields: number of earlier attempts
    that gave way to another tenant.
    """

    tenant: Tenant
    job: str
    attempt: int
    asked: dict[str, Any]
    plan: str | None = None
    yields: int = 0
    kind: JobKind = "plan"


Ended = Literal["ended", "to verify", "not ours"]


class Leases:
    """The leases of one database's jobs. Safe to share between threads and processes."""

    def __init__(
        self,
        database: Database,
        *,
        lease_s: float = 15,
        tries: RetryLimits = RetryLimits(),  # noqa: B008  frozen
        agents: Agents | None = None,
    ) -> None:
        self.lease_s = lease_s
        self._database = database
        self._losses = Losses(database, agents or Agents(database), tries, lease_s=lease_s)

    def has_work(self, of_kind: ColumnElement[bool] = FOR_WORKERS) -> bool:
        """Whether a job can be claimed; reads only."""
        runnable = or_(self._losses.is_runnable(), self._losses.has_lapsed())
        with self._database.reading() as connection:
            runnable_jobs = select(JobRow.id).where(of_kind, runnable).limit(1)
            return connection.execute(runnable_jobs).first() is not None

    def claim(self, worker: str, of_kind: ColumnElement[bool] = FOR_WORKERS) -> Claim | None:
        """Lease a runnable job, or return None. At most one worker ever holds an attempt.

        Jobs are ordered by fair share (`meshwright_service.jobs.fair_share`).
        """
        with self._database.writing() as connection:
            self._losses.settle(connection)
            oldest = connection.execute(
                select(JobRow.id)
                .where(of_kind, self._losses.is_runnable())
                .order_by(*fair_share())
                .limit(1)
                .with_for_update(skip_locked=True)
            ).first()
            if oldest is None:
                return None
            row = connection.execute(
                update(JobRow)
                .where(JobRow.id == oldest.id, JobRow.state == "queued")
                .values(
                    state="running",
                    attempt=JobRow.attempt + 1,
                    worker=worker,
                    lease_until=self._database.now + self.lease_s,
                    started=func.coalesce(JobRow.started, self._database.now),
                )
                .returning(
                    JobRow.tenant,
                    JobRow.key,
                    JobRow.id,
                    JobRow.attempt,
                    JobRow.asked,
                    JobRow.plan,
                    JobRow.yields,
                    JobRow.kind,
                )
            ).one()  # the row is locked
            connection.execute(
                update(KeyRow).where(KeyRow.id == row.key).values(served=self._database.now)
            )
            event = {"state": "running", "worker": worker}
            self._note(connection, row.id, row.attempt, event)
        return Claim(
            Tenant(row.tenant), row.id, row.attempt, row.asked, row.plan, row.yields, row.kind
        )

    def renew(self, claim: Claim) -> bool:
        """Renew the lease; False if it is lost."""
        with self._database.writing() as connection:
            return self._change(connection, claim, lease_until=self._database.now + self.lease_s)

    def holds(self, claim: Claim) -> bool:
        """Whether the lease is still held; reads only."""
        with self._database.reading() as connection:
            return connection.execute(select(JobRow.id).where(_ours(claim))).first() is not None

    def progress(self, claim: Claim, progress: Progress | CostGraphProgress) -> bool:
        """Store the progress of the search; False if the lease is lost."""
        body = progress.model_dump(mode="json", exclude_none=True)
        with self._database.writing() as connection:
            ours = self._change(connection, claim, progress=body)
            if ours:
                self._note(connection, claim.job, claim.attempt, {"progress": body})
            return ours

    def keep(self, claim: Claim, plan: StoredPlan, seconds: Sequence[float] = ()) -> bool:
        """Store the incumbent plan; False if the lease is lost."""
        with self._database.writing() as connection:
            if _lock_row(connection, claim) is None:
                return False
            best = IncumbentPlan(claim.attempt, plan, seconds)
            incumbent_plans.keep(connection, claim.job, best, now=self._database.now)
            return True

    def succeed(
        self,
        claim: Claim,
        plan: StoredPlan,
        *,
        seconds: Sequence[float] = (),
        ended_early: bool = False,
    ) -> Ended:
        """Store the plan and end the job, unless the plan is to be verified; in one transaction.

        A faster incumbent plan of an earlier attempt replaces the plan. seconds, ended_early:
        fields of `Answer`.
        """
        search_columns: dict[str, Any] = {"seconds": list(seconds), "ended_early": ended_early}
        with self._database.writing() as connection:
            job = _lock_row(connection, claim)
            if job is None:
                return "not ours"
            earlier = incumbent_plans.earlier(
                connection, claim.job, claim.attempt, claim.asked, plan
            )
            if earlier is not None:
                problem = _problem(claim, WorkerLost(HAD_A_FASTER))
                columns = {**earlier.search_columns, "problem": problem}
                return self._answer(connection, claim, job, earlier.plan, **columns)
            return self._answer(connection, claim, job, plan, **search_columns)

    def plan_to_verify(self, claim: Claim) -> str | None:
        """The plan of a running job that is still leased to the worker; reads only."""
        with self._database.reading() as connection:
            return connection.execute(select(JobRow.plan).where(_ours(claim))).scalar()

    def _answer(
        self,
        connection: Connection,
        claim: Claim,
        job: Row[Any],
        plan: StoredPlan,
        **search_columns: Any,
    ) -> Ended:
        """Store a plan and the columns of its search, and end the job unless it verifies.

        job: the locked row.
        """
        search_columns |= {"outcome": plan.outcome, "plan": plan.id}
        now = self._database.now
        documents.put_plan(connection, claim.tenant, plan, now=now, key=job.key)
        if not job.verify:
            self._end(connection, claim, "succeeded", **search_columns)
            return "ended"
        self._change(connection, claim, **search_columns)
        incumbent_plans.forget(connection, claim.job)
        self._note(connection, claim.job, claim.attempt, {"plan": plan.id})
        return "to verify"

    def solve(
        self, claim: Claim, solution: StoredDocument, *, status: str, ended_early: bool = False
    ) -> bool:
        """Store the solution of a cost graph and end the job, in one transaction."""
        with self._database.writing() as connection:
            if _lock_row(connection, claim) is None:
                return False
            documents.put_encoded(connection, claim.tenant, solution, now=self._database.now)
            return self._end(
                connection,
                claim,
                "succeeded",
                solution=solution.id,
                outcome=status,
                ended_early=ended_early,
            )

    def measured(self, claim: Claim, samples: Samples, calibration: Calibration) -> bool:
        """Store samples, their topology and calibration, and end the job, in one transaction."""
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
        """Store the certificate of the job's plan and end the job, in one transaction."""
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
        """End the job as infeasible, or with its incumbent plan if there is one."""
        body = infeasible.model_dump(mode="json", exclude_none=True)
        why = {"problem": _problem(claim, WorkerLost(f"{HAD_ONE}: {infeasible.detail}"))}
        return self._end_without_plan(
            claim, "succeeded", why, outcome="infeasible", infeasible=body
        )

    def cut_short(self, claim: Claim, error: MeshwrightError, *, trace: str | None = None) -> Ended:
        """End the job with its incumbent plan and a problem; without a plan it fails with the
        problem. trace: for the operator."""
        why = {"problem": _problem(claim, error), "trace": trace}
        return self._end_without_plan(claim, "failed", why, **why)

    def _end_without_plan(
        self, claim: Claim, state: str, why: dict[str, Any], **values: Any
    ) -> Ended:
        """End a search without a plan: with its incumbent plan and `why`, else with `values`."""
        with self._database.writing() as connection:
            job = _lock_row(connection, claim)
            if job is None:
                return "not ours"
            best = incumbent_plans.of(connection, claim.job)
            if best is None:
                self._end(connection, claim, state, **values)
                return "ended"
            return self._answer(connection, claim, job, best.plan, **best.search_columns, **why)

    def fail(self, claim: Claim, error: MeshwrightError, *, trace: str | None = None) -> bool:
        """End the job with a problem. trace: for the operator."""
        with self._database.writing() as connection:
            return self._end(
                connection,
                claim,
                "failed",
                problem=_problem(claim, error),
                trace=trace,
            )

    def release(self, claim: Claim) -> bool:
        """Queue the job again, because its worker stops."""
        with self._database.writing() as connection:
            return self._end(connection, claim, "queued")

    def is_due_to_yield(self, claim: Claim) -> bool:
        """Whether a job of another tenant with fewer running jobs waits; reads only."""
        with self._database.reading() as connection:
            waiting = select(JobRow.id).where(
                FOR_WORKERS, self._losses.is_runnable(), has_fewer_running(claim.tenant)
            )
            return connection.execute(waiting.limit(1)).first() is not None

    def give_way(self, claim: Claim) -> bool:
        """Queue the job again for a job of another tenant; its incumbent plan stays."""
        with self._database.writing() as connection:
            return self._end(connection, claim, "queued", yields=claim.yields + 1)

    def lost(self, claim: Claim, *, trace: str) -> bool:
        """Record a loss: the search ended without an answer; queue the job again or end it."""
        return self._requeue(claim, trace, self._losses.lost)

    def killed(self, claim: Claim, *, trace: str) -> bool:
        """Record a lapse: another program killed the search; queue the job again or end it."""
        return self._requeue(claim, trace, self._losses.lapsed)

    def _requeue(
        self, claim: Claim, trace: str, count: Callable[[Row[Any]], dict[str, Any]]
    ) -> bool:
        with self._database.writing() as connection:
            row = _lock_row(connection, claim)
            if row is None:
                return False
            columns = {"trace": trace, **count(row)}
            ours = self._end(connection, claim, "queued", is_lost=True, **columns)
            self._losses.settle(connection)
            return ours

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
                incumbent_plans.forget(connection, claim.job)
            self._note(connection, claim.job, claim.attempt, {"state": state}, is_lost=is_lost)
        return ours

    def _note(
        self, connection: Connection, job: str, attempt: int, body: Any, *, is_lost: bool = False
    ) -> None:
        now = self._database.now
        events.note(connection, job, attempt, body, now=now, is_lost=is_lost)


def _problem(claim: Claim, error: MeshwrightError) -> dict[str, Any]:
    return error.problem(instance=f"/v1/jobs/{claim.job}")


def _lock_row(connection: Connection, claim: Claim) -> Row[Any] | None:
    """The row of a leased job, locked until the end of the transaction; None if it is lost."""
    job_row = select(JobRow.verify, JobRow.key, JobRow.losses, JobRow.lapses).where(_ours(claim))
    row = connection.execute(job_row.with_for_update()).first()
    return cast(Row[Any] | None, row)


def _ours(claim: Claim) -> ColumnElement[bool]:
    return and_(JobRow.id == claim.job, JobRow.attempt == claim.attempt, JobRow.state == "running")
