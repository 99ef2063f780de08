"""Sweeps: sets of planning jobs. The state of a sweep is that of its jobs.

A point names its job. The same request under another sweep, or outside of one, has the same job, so
that no point is planned twice, and a sweep goes on wherever its jobs go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, Select, delete, insert, select, update

from meshwright.schema import NotFound, Topology
from meshwright.schema.plan_figures import PlanFigures
from meshwright.schema.sweep import OPEN_STATES, Sweep, SweepPoint, SweepRow, SweepState
from meshwright.sweeps import row_of, with_front
from meshwright_service.auth.principals import Principal
from meshwright_service.common.tenant import Tenant
from meshwright_service.common.zstd import unpack
from meshwright_service.jobs.acceptance import OPEN
from meshwright_service.store.pagination import Page, PageRequest, read_page
from meshwright_service.store.tables import DocumentRow, JobRow, KeyRow, PlanRow, SweepRecord

AT_ONCE = 500  # chosen: jobs that one statement reads


@dataclass(frozen=True, slots=True)
class PointRecord:
    """A stored point. job: None for a point that is not valid, for the reason `problem`.

    queued: whether the sweep queued the job, rather than found it.
    """

    point: SweepPoint
    job: str | None = None
    queued: bool = False
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        """A JSON value; `of` reads it."""
        point = self.point.model_dump(mode="json", exclude_none=True)
        rest = {"job": self.job, "queued": self.queued, "problem": self.problem}
        return {"point": point, **{name: value for name, value in rest.items() if value}}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> PointRecord:
        """Read a value of `to_dict`."""
        return cls(**{**value, "point": SweepPoint.model_validate(value["point"])})


@dataclass(frozen=True, slots=True)
class SweepStatus:
    """A sweep and the states of its points, at one time."""

    record: Row[Any]
    states: tuple[SweepState, ...]

    @property
    def done(self) -> int:
        """The number of points whose answer is final."""
        return sum(state not in OPEN_STATES for state in self.states)

    @property
    def state(self) -> Literal["running", "done", "cancelled"]:
        """The state of the sweep."""
        if self.done < len(self.states):
            return "running"
        return "done" if self.record.cancelled is None else "cancelled"


def put(
    connection: Connection,
    by: Principal,
    sweep: str,
    *,
    graph: str,
    body: Mapping[str, Any],
    points: Sequence[PointRecord],
    now: ColumnElement[float],
) -> None:
    """Store a sweep, or the points of a sweep that is asked for again."""
    values = {"points": [point.to_dict() for point in points], "cancelled": None}
    mine = _mine(by.tenant, sweep)
    if not connection.execute(update(SweepRecord).where(*mine).values(**values)).rowcount:
        row = {"tenant": by.tenant, "id": sweep, "key": by.key, "created": now, "graph": graph}
        connection.execute(insert(SweepRecord).values(**row, body=dict(body), **values))


def points(connection: Connection, tenant: Tenant, sweep: str) -> tuple[PointRecord, ...]:
    """The points of a sweep; empty for one that is not stored."""
    stored = select(SweepRecord.points).where(*_mine(tenant, sweep))
    return tuple(map(PointRecord.of, connection.execute(stored).scalar() or ()))


def status(connection: Connection, tenant: Tenant, sweep: str) -> SweepStatus:
    """A sweep with the states of its points; raises NotFound."""
    record = connection.execute(_records(tenant).where(SweepRecord.id == sweep)).first()
    if record is None:
        raise NotFound(f"no sweep has the id {sweep[:100]!r}")
    (found,) = _statuses(connection, tenant, [record])
    return found


def rows(connection: Connection, tenant: Tenant, record: Row[Any]) -> tuple[SweepRow, ...]:
    """The answers of the points of a sweep, by its record."""
    stored = _points(record)
    jobs = _jobs(connection, tenant, stored, JobRow.topology, PlanRow.summary)
    topologies = _topologies(connection, {job.topology for job in jobs.values()})
    sweep = Sweep.from_dict(record.body)

    def row(point: PointRecord) -> SweepRow:
        job = jobs.get(point.job)
        state, reason = _state(point, job)
        figures = None if job is None or job.summary is None else job.summary.get("figures")
        return row_of(
            sweep,
            point.point,
            state,
            topology=None if job is None else topologies.get(job.topology),
            figures=PlanFigures.model_validate(figures) if figures else None,
            reason=reason,
            job=point.job,
        )

    return with_front(map(row, stored))


def list_sweeps(connection: Connection, tenant: Tenant, page: PageRequest) -> Page[SweepStatus]:
    """Sweeps, newest first."""
    records, token = read_page(
        connection, _records(tenant), SweepRecord.created, SweepRecord.id, page
    )
    return Page(_statuses(connection, tenant, records), token)


def open_jobs(connection: Connection, tenant: Tenant, sweep: str) -> list[str]:
    """The open jobs that a sweep queued and no other running sweep of the tenant waits for."""
    mine = {point.job: point for point in points(connection, tenant, sweep) if point.queued}
    others = select(SweepRecord.points).where(
        SweepRecord.tenant == tenant, SweepRecord.id != sweep, SweepRecord.cancelled.is_(None)
    )
    for stored in connection.execute(others).scalars():
        for point in stored:
            mine.pop(point.get("job"), None)
    return [
        job.id for job in _jobs(connection, tenant, mine.values()).values() if job.state in OPEN
    ]


def cancel(
    connection: Connection, tenant: Tenant, sweep: str, *, now: ColumnElement[float]
) -> None:
    """Note that a sweep was cancelled; its jobs are cancelled one by one."""
    connection.execute(update(SweepRecord).where(*_mine(tenant, sweep)).values(cancelled=now))


def delete_sweep(connection: Connection, tenant: Tenant, sweep: str) -> None:
    """Delete a sweep; its jobs and plans stay. Raises NotFound."""
    if not connection.execute(delete(SweepRecord).where(*_mine(tenant, sweep))).rowcount:
        raise NotFound(f"no sweep has the id {sweep[:100]!r}")


def _mine(tenant: Tenant, sweep: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return SweepRecord.tenant == tenant, SweepRecord.id == sweep


def _records(tenant: Tenant) -> Select[Any]:
    return (
        select(
            SweepRecord.__table__,
            KeyRow.name.label("key_name"),
            DocumentRow.name.label("graph_name"),
        )
        .outerjoin(KeyRow, KeyRow.id == SweepRecord.key)
        .join(DocumentRow, DocumentRow.id == SweepRecord.graph)
        .where(SweepRecord.tenant == tenant)
    )


def _points(record: Row[Any]) -> tuple[PointRecord, ...]:
    return tuple(map(PointRecord.of, record.points))


def _jobs(
    connection: Connection, tenant: Tenant, stored: Iterable[PointRecord], *more: Any
) -> dict[str | None, Row[Any]]:
    """The jobs of points by id. more: further columns of jobs and of their plans."""
    columns = JobRow.id, JobRow.state, JobRow.plan, JobRow.infeasible, JobRow.problem
    joined = select(*columns, *more).outerjoin(
        PlanRow, (PlanRow.id == JobRow.plan) & (PlanRow.tenant == JobRow.tenant)
    )
    wanted = sorted({point.job for point in stored if point.job})
    jobs: dict[str | None, Row[Any]] = {}
    for first in range(0, len(wanted), AT_ONCE):
        these = JobRow.id.in_(wanted[first : first + AT_ONCE])
        found = connection.execute(joined.where(JobRow.tenant == tenant, these))
        jobs.update((row.id, row) for row in found)
    return jobs


def _statuses(
    connection: Connection, tenant: Tenant, records: Sequence[Row[Any]]
) -> tuple[SweepStatus, ...]:
    stored = [_points(record) for record in records]
    jobs = _jobs(connection, tenant, chain.from_iterable(stored))
    return tuple(
        SweepStatus(record, tuple(_state(point, jobs.get(point.job))[0] for point in points_))
        for record, points_ in zip(records, stored, strict=True)
    )


def _state(point: PointRecord, job: Row[Any] | None) -> tuple[SweepState, str]:
    """The state of a point by its job, and the reason where it has no plan."""
    if point.job is None:
        return "refused", point.problem
    if job is None:
        return "deleted", ""
    if job.plan is not None:
        return "planned", ""
    match job.state:
        case "queued":
            return "waiting", ""
        case "running":
            return "searching", ""
        case "cancelled":
            return "cancelled", ""
        case "succeeded":
            return "infeasible", (job.infeasible or {}).get("detail", "")
    problem = job.problem or {}
    is_request = 400 <= problem.get("status", 500) < 500
    return ("refused" if is_request else "failed"), problem.get("detail", "")


def _topologies(connection: Connection, ids: Iterable[str]) -> dict[str, Topology]:
    """The documents of topologies by id; jobs of the tenant name them."""
    bodies = select(DocumentRow.id, DocumentRow.body).where(DocumentRow.id.in_(sorted(ids)))
    return {row.id: _topology(row.id, row.body) for row in connection.execute(bodies)}


@lru_cache(maxsize=256)
def _topology(id_: str, packed: bytes) -> Topology:
    del id_  # compared before the bytes
    return Topology.from_json(unpack(packed))
