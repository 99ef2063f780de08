"""The job table: submission, lookup and cancellation of jobs by clients.

    queued -> running -> succeeded | failed | cancelled
    queued <- running    when the lease expires, the search is lost or the worker stops

Workers and agents change jobs through leases (`meshwright_service.jobs.leases`). Jobs have kinds
(`meshwright_service.jobs.kinds`). A job that is submitted with a plan only verifies it. A cancelled
job may still receive a plan or a solution (`meshwright_service.jobs.cancellation`).
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
from meshwright_service.jobs.acceptance import OPEN, Acceptance
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
    """Filter of a job list; an empty or None field matches any job.

    model: a case-insensitive glob on the names of graphs. period: of the submission.
    """

    states: Sequence[str] = ()
    kind: JobKind | None = None
    outcome: str | None = None
    model: str | None = None
    topology: str | None = None
    period: Period = ALWAYS

    def conditions(self) -> Iterable[ColumnElement[bool]]:
        """SQL conditions on a job and its graph."""
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
    """Whether a job is final and can receive no more plan."""
    return job.state in FINAL and not job.is_held


class Jobs:
    """The jobs of one database. Safe to share between threads and processes.

    max_jobs: limit of the queued and running jobs of a tenant.
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
        inputs: str,
        graph: str,
        topology: str,
        options: Any,
        verify: bool = False,
        plan: str | None = None,
        outcome: str | None = None,
        seconds: Sequence[float] | None = None,
        ended_early: bool = False,
    ) -> str:
        """Queue a job inside the caller's transaction; with a plan, the job only verifies it.

        options: the options of the request. Raises TooManyJobs, and NotFound for a document that
        was deleted since.
        """
        referring(connection)
        self._admit(connection, by.tenant)
        others = [options.get(field) for field in ("setup", "calibration", "from_plan")]
        documents.need(connection, by.tenant, [graph, topology, plan, *others])
        return self._queue(
            connection,
            by,
            request=request,
            inputs=inputs,
            graph=graph,
            topology=topology,
            calibration=options.get("calibration"),
            asked=options,
            verify=verify,
            plan=plan,
            outcome=outcome,
            seconds=seconds,
            ended_early=ended_early,
        )

    def solve(
        self,
        connection: Connection,
        by: Principal,
        *,
        request: str,
        inputs: str,
        cost_graph: str,
        options: Any,
    ) -> str:
        """Queue a job that solves a cost graph.

        Raises TooManyJobs, and NotFound for a cost graph that was deleted since.
        """
        self._admit(connection, by.tenant)
        documents.need(connection, by.tenant, [cost_graph])
        return self._queue(
            connection,
            by,
            kind="solution",
            request=request,
            inputs=inputs,
            cost_graph=cost_graph,
            asked=options,
        )

    def measure(self, connection: Connection, by: Principal, measure: Measure) -> str:
        """Queue a measurement, which agents claim; raises TooManyJobs."""
        self._admit(connection, by.tenant)
        return self._queue(
            connection,
            by,
            kind="measurement",
            request=None,  # never shared: each request is a new measurement
            asked=measure.to_dict(),
            agent=measure.agent,
            backend=measure.backend,
        )

    def find(
        self,
        connection: Connection,
        tenant: Tenant,
        request: str,
        accepted: Acceptance = Acceptance(),  # noqa: B008  frozen
        *,
        inputs: str = "",
    ) -> Row[Any] | None:
        """The newest job with an accepted answer to the request, now or later; else None.

        inputs: the digest of the request without the planner's build, by which an answer of another
        build is found if the acceptance allows one; an answer of this build precedes it.
        """
        parameters = {"tenant": tenant, "request": request}
        row = connection.execute(self._newest_answering(accepted), parameters).first()
        if row is not None or not accepted.of_any_build:
            return row
        of_any_build = self._newest.where(
            JobRow.inputs == inputs,
            JobRow.state.not_in(OPEN),
            *accepted.conditions(self._database.now),
        )
        return connection.execute(of_any_build, {"tenant": tenant}).first()

    def verify(self, connection: Connection, by: Principal, job: Row[Any]) -> str:
        """The id of the job that has or will have a certificate for the plan of `job`.

        That is `job` itself if it is open, is verified already, or has no plan.
        """
        # read again under a lock: a concurrent change must be visible
        current = select(JobRow.__table__).where(JobRow.id == job.id).with_for_update()
        job = connection.execute(current).one()
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
            inputs=job.inputs,
            graph=job.graph,
            topology=job.topology,
            options=job.asked,
            verify=True,
            plan=job.plan,
            outcome=job.outcome,
            seconds=job.seconds,
            ended_early=job.ended_early,
        )

    def get(self, tenant: Tenant, job: str) -> Row[Any]:
        """The row of a job; raises NotFound for an unknown id."""
        with self._database.reading() as connection:
            return self._get(connection, tenant, job)

    def versions(self, jobs: Sequence[str]) -> dict[str, object]:
        """By id, a value that changes whenever the job changes; None for an unknown job."""
        last = select(func.max(JobEventRow.seq)).where(JobEventRow.job == JobRow.id)
        changing = select(
            JobRow.id, JobRow.state, JobRow.attempt, JobRow.plan, JobRow.solution, JobRow.verify,
            JobRow.finished,
            self._is_held().label("is_held"), last.scalar_subquery().label("last"),
        ).outerjoin(KeptRow, KeptRow.job == JobRow.id)  # fmt: skip
        versions: dict[str, object] = dict.fromkeys(jobs)
        with self._database.reading() as connection:
            for first in range(0, len(jobs), AT_ONCE):
                these = changing.where(JobRow.id.in_(jobs[first : first + AT_ONCE]))
                versions.update((row.id, tuple(row)) for row in connection.execute(these))
        return versions

    def list(self, tenant: Tenant, page: PageRequest, wanted: JobFilter = EVERY) -> Page[Row[Any]]:
        """Jobs, newest first."""
        statement = self._rows().where(JobRow.tenant == tenant, *wanted.conditions())
        with self._database.reading() as connection:
            rows, token = read_page(connection, statement, JobRow.created, JobRow.id, page)
        return Page(tuple(rows), token)

    def cancel(self, tenant: Tenant, job: str) -> Row[Any]:
        """Cancel the job unless it has ended; its worker then ends the search.

        The lease stays: the worker may store a plan until it releases the lease or it expires.
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
            incumbent_plans.settle(connection, job, now=self._database.now)  # no search runs
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
        self._database.alone(connection, f"jobs of {tenant}")  # serializes the counts of a tenant
        open_ = select(JobRow.id).where(
            JobRow.tenant == tenant, JobRow.state.in_(("queued", "running"))
        )
        count = select(func.count()).select_from(open_.limit(self._max_jobs).subquery())
        if connection.execute(count).scalar_one() >= self._max_jobs:
            raise TooManyJobs(
                f"the tenant has {self._max_jobs} queued or running jobs, which is the limit. Wait "
                "for their end, or cancel some"
            )

    def _get(self, connection: Connection, tenant: Tenant, job: str) -> Row[Any]:
        mine = and_(JobRow.id == job, JobRow.tenant == tenant)
        row = connection.execute(self._rows().where(mine)).first()
        if row is None:
            raise NotFound(f"no job has the id {job[:100]!r}")
        return row

    def _newest_answering(self, accepted: Acceptance) -> Select[Any]:
        """The newest job of a request with an accepted answer; most statements are built once."""
        statement = self._answering.get(accepted)
        if statement is None:
            of_request = self._newest.where(JobRow.request == bindparam("request"))
            statement = of_request.where(*accepted.conditions(self._database.now))
            if accepted.max_age_s is None:  # a cache of every age would be unbounded
                self._answering[accepted] = statement
        return statement

    @cached_property
    def _newest(self) -> Select[Any]:
        """The newest job of a tenant; built once, because every cached request runs it."""
        return (
            self._rows()
            .where(JobRow.tenant == bindparam("tenant"))
            .order_by(JobRow.created.desc(), JobRow.id.desc())
            .limit(1)
        )

    def _rows(self) -> Select[Any]:
        """Rows of jobs with the names of their documents and of their key.

        is_held: the lease of the job is valid, or its incumbent plan is not settled.
        """
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
