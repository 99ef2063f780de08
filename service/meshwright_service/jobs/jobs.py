"""The job table: who asked for what, and what came of it.

    queued -> running -> succeeded | failed | cancelled
    queued <- running    when the lease runs out, the search is lost or the worker stops

Here are the questions of those who ask; workers and agents change jobs by their leases
(`meshwright_service.jobs.leases`). There are several kinds of job
(`meshwright_service.jobs.kinds`). A search whose plan was known when it was queued does not search
at all; a search that is cancelled may have a plan or a solution a moment later
(`meshwright_service.jobs.cancellation`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.orm import aliased

from meshwright.schema import NotFound, TooManyJobs
from meshwright.schema.agent import Measure
from meshwright_service.auth.principals import Principal
from meshwright_service.common.clock import is_ahead
from meshwright_service.common.tenant import Tenant
from meshwright_service.jobs import events, incumbent_plans
from meshwright_service.jobs.acceptance import Acceptance
from meshwright_service.jobs.kinds import JobKind
from meshwright_service.store import certificates, documents
from meshwright_service.store.database import Database
from meshwright_service.store.document_locks import referring
from meshwright_service.store.pagination import Page, PageRequest, read_page
from meshwright_service.store.plan_index import matches
from meshwright_service.store.tables import DocumentRow, JobEventRow, JobRow, KeptRow, KeyRow
from meshwright_service.store.time_range import ALWAYS, Period

AT_ONCE = 500  # chosen: jobs whose versions one statement reads
FINAL = ("succeeded", "failed", "cancelled")
GRAPHS, TOPOLOGIES, COST_GRAPHS = (aliased(DocumentRow) for _ in range(3))


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs are wanted: of one of these states, all else None for any. model: a glob of names
    of graphs, upper or lower case alike. period: in which it was asked for."""

    states: Sequence[str] = ()
    kind: JobKind | None = None
    outcome: str | None = None
    model: str | None = None
    topology: str | None = None
    period: Period = ALWAYS

    def conditions(self) -> Iterable[ColumnElement[bool]]:
        """Of a job and its graph."""
        yield from self.period.conditions(JobRow.created)
        if self.states:
            yield JobRow.state.in_(self.states)
        if self.kind is not None:
            yield JobRow.kind == self.kind
        if self.outcome is not None:
            yield JobRow.outcome == self.outcome
        if self.topology is not None:
            yield JobRow.topology == self.topology
        if self.model is not None and self.model.strip("*"):
            yield matches(GRAPHS.name, self.model)


EVERY = JobFilter()


def has_ended(job: Row[Any]) -> bool:
    """Whether nothing more will come of a job: it is final, and no plan is on its way."""
    return job.state in FINAL and not job.is_held


class Jobs:
    """The jobs of one database. Safe to share between threads and processes.

    max_jobs: that a tenant may have queued and running.
    """

    def __init__(self, database: Database, *, lease_s: float = 15, max_jobs: int = 1000) -> None:
        self._database = database
        self._lease_s = lease_s
        self._max_jobs = max_jobs
        self._answering: dict[Acceptance, Select[Any]] = {}

    def submit(
        self,
        connection: Connection,
        by: Principal,
        *,
        request: str,
        graph: str,
        topology: str,
        asked: Any,
        verify: bool = False,
        plan: str | None = None,
        outcome: str | None = None,
        seconds: Sequence[float] | None = None,
        ended_early: bool = False,
    ) -> str:
        """Queue a job inside the caller's transaction; with a plan, only to verify that.

        Raises TooManyJobs, and NotFound of what was deleted meanwhile.
        """
        referring(connection)
        self._admit(connection, by.tenant)
        named = [asked.get(field) for field in ("setup", "calibration", "from_plan")]
        documents.need(connection, by.tenant, [graph, topology, plan, *named])
        return self._queue(
            connection,
            by,
            request=request,
            graph=graph,
            topology=topology,
            calibration=asked.get("calibration"),
            asked=asked,
            verify=verify,
            plan=plan,
            outcome=outcome,
            seconds=seconds,
            ended_early=ended_early,
        )

    def solve(
        self, connection: Connection, by: Principal, *, request: str, cost_graph: str, asked: Any
    ) -> str:
        """Queue a job that solves a cost graph; raises TooManyJobs, and NotFound of a cost graph
        that was deleted meanwhile."""
        self._admit(connection, by.tenant)
        documents.need(connection, by.tenant, [cost_graph])
        return self._queue(
            connection, by, kind="solution", request=request, cost_graph=cost_graph, asked=asked
        )

    def measure(self, connection: Connection, by: Principal, asked: Measure) -> str:
        """Queue a measurement, which agents claim; raises TooManyJobs."""
        self._admit(connection, by.tenant)
        return self._queue(
            connection,
            by,
            kind="measurement",
            request=None,  # two who ask want two measurements
            asked=asked.to_dict(),
            agent=asked.agent,
            backend=asked.backend,
        )

    def find(
        self,
        connection: Connection,
        tenant: Tenant,
        request: str,
        accepted: Acceptance = Acceptance(),  # noqa: B008  frozen
    ) -> Row[Any] | None:
        """The newest job that answers this request, or will; None where none is accepted."""
        statement = self._answering.get(accepted)
        if statement is None:
            now = self._database.now
            statement = self._asked.where(*accepted.conditions(now))
            if accepted.max_age_s is None:  # the others are too many to keep
                self._answering[accepted] = statement
        asked = {"tenant": tenant, "request": request}
        return connection.execute(statement, asked).first()

    def verify(self, connection: Connection, by: Principal, job: Row[Any]) -> str:
        """The job that has or will have a certificate for the plan of `job`.

        That is `job` itself where it still searches, verifies, or can have none.
        """
        # as it is once whoever changes it has done so
        mine = select(JobRow.__table__).where(JobRow.id == job.id).with_for_update()
        job = connection.execute(mine).one()
        if job.plan is None:
            connection.execute(
                update(JobRow)
                .where(JobRow.id == job.id, JobRow.state.in_(("queued", "running")))
                .values(verify=True)
            )
            return str(job.id)
        if job.state not in FINAL or certificates.exists(connection, by.tenant, job.plan):
            return str(job.id)
        return self.submit(
            connection,
            by,
            request=job.request,
            graph=job.graph,
            topology=job.topology,
            asked=job.asked,
            verify=True,
            plan=job.plan,
            outcome=job.outcome,
            seconds=job.seconds,
            ended_early=job.ended_early,
        )

    def get(self, tenant: Tenant, job: str) -> Row[Any]:
        """The job's row; NotFound where there is none."""
        with self._database.reading() as connection:
            return self._get(connection, tenant, job)

    def versions(self, jobs: Sequence[str]) -> dict[str, object]:
        """By id, a value that changes whenever a job does; None of a job that is not there."""
        last = select(func.max(JobEventRow.seq)).where(JobEventRow.job == JobRow.id)
        changing = select(
            JobRow.id, JobRow.state, JobRow.attempt, JobRow.plan, JobRow.solution, JobRow.verify,
            JobRow.finished,
            self._is_held().label("is_held"), last.scalar_subquery().label("last"),
        ).outerjoin(KeptRow, KeptRow.job == JobRow.id)  # fmt: skip
        found: dict[str, object] = dict.fromkeys(jobs)
        with self._database.reading() as connection:
            for first in range(0, len(jobs), AT_ONCE):
                these = changing.where(JobRow.id.in_(jobs[first : first + AT_ONCE]))
                found.update((row.id, tuple(row)) for row in connection.execute(these))
        return found

    def list(self, tenant: Tenant, page: PageRequest, wanted: JobFilter = EVERY) -> Page[Row[Any]]:
        """Jobs, the newest first."""
        statement = self._rows().where(JobRow.tenant == tenant, *wanted.conditions())
        with self._database.reading() as connection:
            rows, token = read_page(connection, statement, JobRow.created, JobRow.id, page)
        return Page(tuple(rows), token)

    def cancel(self, tenant: Tenant, job: str) -> Row[Any]:
        """End the job unless it has ended; its worker notices and ends the search.

        The lease stays: until the worker lets go of it, or it runs out, a plan may still come.
        """
        with self._database.writing() as connection:
            changed = connection.execute(
                update(JobRow)
                .where(
                    JobRow.id == job,
                    JobRow.tenant == tenant,
                    JobRow.state.in_(("queued", "running")),
                )
                .values(state="cancelled", finished=self._database.now)
            )
            row = self._get(connection, tenant, job)
            if not changed.rowcount:
                return row
            self._note(connection, job, row.attempt, {"state": "cancelled"})
            if row.lease_until is not None:
                return row
            incumbent_plans.settle(connection, job, now=self._database.now)  # nobody searches
            return self._get(connection, tenant, job)

    def _queue(
        self,
        connection: Connection,
        by: Principal,
        *,
        request: str | None,
        kind: JobKind = "plan",
        **columns: Any,
    ) -> str:
        job = f"job_{uuid.uuid4().hex}"
        connection.execute(
            insert(JobRow).values(
                id=job,
                tenant=by.tenant,
                key=by.key,
                kind=kind,
                request=request or job,
                state="queued",
                attempt=0,
                losses=0,
                created=self._database.now,
                **columns,
            )
        )
        self._note(connection, job, 0, {"state": "queued"})
        return job

    def _admit(self, connection: Connection, tenant: Tenant) -> None:
        self._database.alone(connection, f"jobs of {tenant}")  # nobody else counts meanwhile
        open_ = select(JobRow.id).where(
            JobRow.tenant == tenant, JobRow.state.in_(("queued", "running"))
        )
        count = select(func.count()).select_from(open_.limit(self._max_jobs).subquery())
        if connection.execute(count).scalar_one() >= self._max_jobs:
            raise TooManyJobs(
                f"{self._max_jobs} jobs of yours are queued or running, and more are not taken; "
                "wait for some, or cancel them"
            )

    def _get(self, connection: Connection, tenant: Tenant, job: str) -> Row[Any]:
        mine = and_(JobRow.id == job, JobRow.tenant == tenant)
        row = connection.execute(self._rows().where(mine)).first()
        if row is None:
            raise NotFound(f"no job has the id {job[:100]!r}")
        return row

    @cached_property
    def _asked(self) -> Select[Any]:
        """The jobs of a request, the newest first; made once: every cached request runs it."""
        return (
            self._rows()
            .where(JobRow.tenant == bindparam("tenant"), JobRow.request == bindparam("request"))
            .order_by(JobRow.created.desc(), JobRow.id.desc())
            .limit(1)
        )

    def _rows(self) -> Select[Any]:
        """Rows of jobs with the names of what they are of, and of the key that asked; `is_held`: a
        worker has the job, or had it when it was cancelled, or a plan that was kept is yet to be
        its answer."""
        return (
            select(
                JobRow.__table__,
                self._is_held().label("is_held"),
                GRAPHS.name.label("graph_name"),
                COST_GRAPHS.name.label("cost_graph_name"),
                TOPOLOGIES.name.label("topology_name"),
                KeyRow.name.label("key_name"),
            )
            .outerjoin(GRAPHS, GRAPHS.id == JobRow.graph)
            .outerjoin(COST_GRAPHS, COST_GRAPHS.id == JobRow.cost_graph)
            .outerjoin(TOPOLOGIES, TOPOLOGIES.id == JobRow.topology)
            .outerjoin(KeyRow, KeyRow.id == JobRow.key)
            .outerjoin(KeptRow, KeptRow.job == JobRow.id)
        )

    def _is_held(self) -> ColumnElement[bool]:
        ahead = is_ahead(JobRow.lease_until, self._database.now, self._lease_s)
        return or_(and_(JobRow.lease_until.is_not(None), ahead), KeptRow.job.is_not(None))

    def _note(self, connection: Connection, job: str, attempt: int, body: Any) -> None:
        events.note(connection, job, attempt, body, now=self._database.now)
