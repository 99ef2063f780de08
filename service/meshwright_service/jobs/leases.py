"""Leases of jobs: what a worker, or an agent, may do with the one that it has claimed.

Workers claim searches, agents measurements (`meshwright_service.jobs.kinds`); all else is the same
for both. A job that verifies has
its plan as soon as that is found, and keeps it whatever comes after: the next attempt only
verifies.

A search that ends without an answer ends its job with the best plan that was kept of it
(`meshwright_service.jobs.incumbent_plans`), with the reason why there is no better one.

Every change is one UPDATE that names the state, and the attempt, that it leaves. Where no row
changed, the job is not the caller's any more: it ends its search and writes nothing.
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
from meshwright_service.jobs.fair_share import fair_share, has_less
from meshwright_service.jobs.incumbent_plans import KeptPlan
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
    """A job leased to a worker. `attempt` is the fence. plan: found already, to be verified.

    tenant: whose job it is, and whose are its documents. yields: attempts that gave way before.
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

    def has_work(self, what: ColumnElement[bool] = FOR_WORKERS) -> bool:
        """Whether a claim would find a job; reads only."""
        runnable = or_(self._losses.is_runnable(), self._losses.has_lapsed())
        with self._database.reading() as connection:
            found = select(JobRow.id).where(what, runnable).limit(1)
            return connection.execute(found).first() is not None

    def claim(self, worker: str, what: ColumnElement[bool] = FOR_WORKERS) -> Claim | None:
        """Lease a runnable job of these; None without. One at most holds an attempt.

        Tenants take turns, then the keys of a tenant (`meshwright_service.jobs.fair_share`).
        """
        with self._database.writing() as connection:
            self._losses.settle(connection)
            oldest = connection.execute(
                select(JobRow.id)
                .where(what, self._losses.is_runnable())
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
            ).one()  # it is locked
            connection.execute(
                update(KeyRow).where(KeyRow.id == row.key).values(served=self._database.now)
            )
            began = {"state": "running", "worker": worker}
            self._note(connection, row.id, row.attempt, began)
        return Claim(
            Tenant(row.tenant), row.id, row.attempt, row.asked, row.plan, row.yields, row.kind
        )

    def renew(self, claim: Claim) -> bool:
        """Prolong the lease; False where the job is not ours any more."""
        with self._database.writing() as connection:
            return self._change(connection, claim, lease_until=self._database.now + self.lease_s)

    def holds(self, claim: Claim) -> bool:
        """Whether the job is still ours; reads only."""
        with self._database.reading() as connection:
            return connection.execute(select(JobRow.id).where(_ours(claim))).first() is not None

    def progress(self, claim: Claim, progress: Progress | CostGraphProgress) -> bool:
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
            best = KeptPlan(claim.attempt, plan, seconds)
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
        """Store the plan, or what an attempt before kept where that is faster, and end the job
        unless its plan is to be verified; all or nothing.

        seconds, ended_early: as of an Answer.
        """
        found: dict[str, Any] = {"seconds": list(seconds), "ended_early": ended_early}
        with self._database.writing() as connection:
            job = _locked(connection, claim)
            if job is None:
                return "not ours"
            earlier = incumbent_plans.earlier(
                connection, claim.job, claim.attempt, claim.asked, plan
            )
            if earlier is not None:
                more = {**earlier.found, "problem": _problem(claim, WorkerLost(HAD_A_FASTER))}
                return self._answer(connection, claim, job, earlier.plan, **more)
            return self._answer(connection, claim, job, plan, **found)

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
        incumbent_plans.forget(connection, claim.job)
        self._note(connection, claim.job, claim.attempt, {"plan": plan.id})
        return "to verify"

    def solve(
        self, claim: Claim, solution: StoredDocument, *, status: str, ended_early: bool = False
    ) -> bool:
        """Store the solution of a cost graph and end the job, both or neither."""
        with self._database.writing() as connection:
            if _locked(connection, claim) is None:
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
            best = incumbent_plans.of(connection, claim.job)
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

    def is_due_to_yield(self, claim: Claim) -> bool:
        """Whether a job waits of another tenant that has fewer running; reads only."""
        with self._database.reading() as connection:
            waiting = select(JobRow.id).where(
                FOR_WORKERS, self._losses.is_runnable(), has_less(claim.tenant)
            )
            return connection.execute(waiting.limit(1)).first() is not None

    def give_way(self, claim: Claim) -> bool:
        """Queue the job again for a job of another tenant; what is kept of its search stays."""
        with self._database.writing() as connection:
            return self._end(connection, claim, "queued", yields=claim.yields + 1)

    def lost(self, claim: Claim, *, trace: str) -> bool:
        """The search ended without an answer: queue the job again, or give it up."""
        return self._lost(claim, trace, self._losses.lost)

    def killed(self, claim: Claim, *, trace: str) -> bool:
        """The same of a search that something else ended: it counts as a lapse."""
        return self._lost(claim, trace, self._losses.lapsed)

    def _lost(self, claim: Claim, trace: str, count: Callable[[Row[Any]], dict[str, Any]]) -> bool:
        with self._database.writing() as connection:
            row = _locked(connection, claim)
            if row is None:
                return False
            more = {"trace": trace, **count(row)}
            ours = self._end(connection, claim, "queued", is_lost=True, **more)
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


def _locked(connection: Connection, claim: Claim) -> Row[Any] | None:
    """The row of a job that is ours, until the end of the transaction; else None."""
    own = select(JobRow.verify, JobRow.key, JobRow.losses, JobRow.lapses).where(_ours(claim))
    row = connection.execute(own.with_for_update()).first()
    return cast(Row[Any] | None, row)


def _ours(claim: Claim) -> ColumnElement[bool]:
    return and_(JobRow.id == claim.job, JobRow.attempt == claim.attempt, JobRow.state == "running")
