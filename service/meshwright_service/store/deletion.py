"""Deletion of a tenant's documents: first the holding, later the unreferenced bytes.

A document is immutable and its id is a digest, so storing it again restores it. The documents of an
open job, the plan that it starts from and the plan that it executes are never deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    ForeignKeyConstraint,
    and_,
    delete,
    or_,
    select,
    tuple_,
)

from meshwright.schema import InUse, NotFound
from meshwright_service.common.tenant import Tenant
from meshwright_service.store import documents
from meshwright_service.store.document_locks import deleting
from meshwright_service.store.tables import Base, DocumentRow, HoldingRow, JobRow, PlanRow

OPEN = ("queued", "running")
NEEDED = (
    "graph",
    "topology",
    "setup",
    "calibration",
    "from_plan",
    "cost_graph",
)  # options of a job that name documents
SHELVES = {
    "plan": "plan",
    "graph": "graph",
    "topo": "topology",
    "cal": "calibration",
    "samples": "samples",
    "costgraph": "cost graph",
    "solution": "solution",
}


def is_open(now: ColumnElement[float]) -> ColumnElement[bool]:
    """SQL condition on a job: it may still change. Never NULL, so its negation is safe."""
    held = and_(
        JobRow.state == "cancelled", JobRow.lease_until.is_not(None), JobRow.lease_until > now
    )
    return or_(JobRow.state.in_(OPEN), held)


def needed(
    connection: Connection, now: ColumnElement[float], tenant: Tenant | None = None
) -> set[tuple[str, str]]:
    """The (tenant, id) pairs of the documents that open jobs need, of one tenant or of all."""
    jobs = select(JobRow.tenant, JobRow.asked, JobRow.graph, JobRow.topology, JobRow.plan)
    jobs = jobs.where(is_open(now))
    if tenant is not None:
        jobs = jobs.where(JobRow.tenant == tenant)
    pairs: set[tuple[str, str]] = set()
    for row in connection.execute(jobs):
        ids = [row.graph, row.topology, row.plan, *(row.asked.get(field) for field in NEEDED)]
        pairs.update((row.tenant, id_) for id_ in ids if id_)
    return pairs


def delete_plan(
    connection: Connection, tenant: Tenant, plan: str, now: ColumnElement[float]
) -> None:
    """Delete a plan with its certificate, labels, observations and jobs.

    Raises NotFound, and InUse if an open job needs it.
    """
    deleting(connection)
    _check_there(connection, tenant, "plan", plan, now)
    delete_plans(connection, [(tenant, plan)])


def delete_input(
    connection: Connection, tenant: Tenant, kind: str, id_: str, now: ColumnElement[float]
) -> None:
    """Delete a graph or a topology, and its ended jobs without a plan.

    Raises NotFound, and InUse if an open job or a plan needs it.
    """
    deleting(connection)
    what = SHELVES[kind]
    _check_there(connection, tenant, kind, id_, now)
    column = PlanRow.graph if kind == "graph" else PlanRow.topology
    plan = connection.execute(
        select(PlanRow.id).where(PlanRow.tenant == tenant, column == id_).limit(1)
    ).scalar()
    if plan is not None:
        raise InUse(f"the plan {plan} is of this {what}; delete the plans first")
    job_column = JobRow.graph if kind == "graph" else JobRow.topology
    jobs = select(JobRow.id).where(JobRow.tenant == tenant, job_column == id_)
    delete_jobs(connection, connection.execute(jobs).scalars().all())
    let_go(connection, [(tenant, id_)])


def delete_calibration(
    connection: Connection, tenant: Tenant, id_: str, now: ColumnElement[float]
) -> None:
    """Delete a calibration, its measurement, and the ended jobs without a plan that name it.

    Raises NotFound, and InUse if an open job or a plan needs it.
    """
    deleting(connection)
    _check_there(connection, tenant, "cal", id_, now)
    plan = connection.execute(
        select(PlanRow.id).where(PlanRow.tenant == tenant, PlanRow.calibration == id_).limit(1)
    ).scalar()
    if plan is not None:
        raise InUse(f"the plan {plan} is made with this calibration; delete the plans first")
    names_calibration = JobRow.asked["calibration"].as_string() == id_
    jobs = select(JobRow.id).where(
        JobRow.tenant == tenant, or_(JobRow.calibration == id_, names_calibration)
    )
    delete_jobs(connection, connection.execute(jobs).scalars().all())
    let_go(connection, [(tenant, id_)])


def delete_samples(
    connection: Connection, tenant: Tenant, id_: str, now: ColumnElement[float]
) -> None:
    """Delete samples; raises NotFound, and InUse if a calibration is fitted to them."""
    deleting(connection)
    _check_there(connection, tenant, "samples", id_, now)
    fitted = select(HoldingRow.id).join(DocumentRow, DocumentRow.id == HoldingRow.id)
    calibration = connection.execute(
        fitted.where(
            HoldingRow.tenant == tenant,
            HoldingRow.kind == "cal",
            DocumentRow.summary["samples"].as_string() == id_,
        ).limit(1)
    ).scalar()
    if calibration is not None:
        raise InUse(
            f"the calibration {calibration} is fitted to these samples; delete the calibrations "
            "first"
        )
    jobs = select(JobRow.id).where(JobRow.tenant == tenant, JobRow.samples == id_)
    delete_jobs(connection, connection.execute(jobs).scalars().all())
    let_go(connection, [(tenant, id_)])


def delete_cost_graph(
    connection: Connection, tenant: Tenant, id_: str, now: ColumnElement[float]
) -> None:
    """Delete a cost graph, its jobs, and their solutions that no other job has.

    Raises NotFound, and InUse if an open job needs it.
    """
    deleting(connection)
    _check_there(connection, tenant, "costgraph", id_, now)
    solved = and_(JobRow.tenant == tenant, JobRow.cost_graph == id_)
    rows = connection.execute(select(JobRow.id, JobRow.solution).where(solved)).all()
    delete_jobs(connection, [row.id for row in rows])
    solutions = {row.solution for row in rows if row.solution is not None}
    shared = select(JobRow.solution).where(
        JobRow.tenant == tenant, JobRow.solution.in_(list(solutions))
    )
    unshared = solutions.difference(connection.execute(shared).scalars())
    let_go(connection, [(tenant, document) for document in (id_, *unshared)])


def delete_solution(
    connection: Connection, tenant: Tenant, id_: str, now: ColumnElement[float]
) -> None:
    """Delete a solution and its jobs; raises NotFound."""
    deleting(connection)
    _check_there(connection, tenant, "solution", id_, now)
    delete_solutions(connection, [(tenant, id_)])


def delete_solutions(connection: Connection, solutions: Sequence[tuple[str, str]]) -> None:
    """Delete solutions, as (tenant, id) pairs, and their jobs."""
    for tenant, solution in solutions:
        jobs = select(JobRow.id).where(JobRow.tenant == tenant, JobRow.solution == solution)
        delete_jobs(connection, connection.execute(jobs).scalars().all())
    let_go(connection, solutions)


def delete_plans(connection: Connection, plans: Sequence[tuple[str, str]]) -> None:
    """Delete plans, as (tenant, id) pairs, and all rows that refer to them."""
    for tenant, plan in plans:
        jobs = select(JobRow.id).where(JobRow.tenant == tenant, JobRow.plan == plan)
        delete_jobs(connection, connection.execute(jobs).scalars().all())
    for constraint in referring_to("plans"):
        plan_columns = tuple_(*(column for column in constraint.columns))
        connection.execute(delete(constraint.table).where(plan_columns.in_(plans)))
    connection.execute(delete(PlanRow).where(tuple_(PlanRow.tenant, PlanRow.id).in_(plans)))
    let_go(connection, plans)


def delete_jobs(connection: Connection, jobs: Sequence[str]) -> None:
    """Delete jobs and all rows that refer to them."""
    if not jobs:
        return
    for constraint in referring_to("jobs"):
        (column,) = constraint.columns
        connection.execute(delete(constraint.table).where(column.in_(jobs)))
    connection.execute(delete(JobRow).where(JobRow.id.in_(jobs)))


def let_go(connection: Connection, held: Iterable[tuple[str, str]]) -> None:
    """Delete holdings, as (tenant, id) pairs; `free_bytes` deletes the bytes later."""
    holding_columns = tuple_(HoldingRow.tenant, HoldingRow.id)
    connection.execute(delete(HoldingRow).where(holding_columns.in_(list(held))))


def free_bytes(connection: Connection, limit: int) -> int:
    """Delete at most `limit` unreferenced documents; return their number."""
    deleting(connection)
    used = [
        select(column) for constraint in referring_to("documents") for column in constraint.columns
    ]
    # set operations instead of a subquery for each document: documents and jobs are many
    unused = select(DocumentRow.id).except_(*used).limit(limit)
    ids = connection.execute(unused).scalars().all()
    if ids:
        connection.execute(delete(DocumentRow).where(DocumentRow.id.in_(ids)))
    return len(ids)


def referring_to(table: str) -> list[ForeignKeyConstraint]:
    """The foreign keys of other tables that refer to this table."""
    return [
        constraint
        for other in Base.metadata.sorted_tables
        for constraint in other.foreign_key_constraints
        if constraint.referred_table.name == table and other.name != table
    ]


def _check_there(
    connection: Connection, tenant: Tenant, kind: str, id_: str, now: ColumnElement[float]
) -> None:
    """Raise NotFound without such a document, and InUse if an open job needs it."""
    what = SHELVES[kind]
    if not documents.exists(connection, tenant, kind, id_):
        raise NotFound(f"no {what} has the id {id_[:100]!r}")
    jobs = select(JobRow.id, JobRow.asked, JobRow.graph, JobRow.topology, JobRow.plan)
    for row in connection.execute(jobs.where(JobRow.tenant == tenant, is_open(now))):
        options: dict[str, Any] = row.asked
        if id_ in (row.graph, row.topology, row.plan, *(options.get(field) for field in NEEDED)):
            raise InUse(f"the job {row.id} needs this {what}; wait for its end, or cancel it")
