"""The request body of a stored plan or job, which a client can change and send again."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from meshwright.schema import Calibration, NotFound, Plan, Setup
from meshwright_service.common.tenant import Tenant
from meshwright_service.store import documents
from meshwright_service.store.tables import JobRow


def request_of_plan(connection: Connection, tenant: Tenant, plan: str) -> dict[str, Any]:
    """The body of POST /v1/plan for a plan: documents by id, the setup inline. Raises NotFound.

    It is the body of the newest job of the plan. After the deletion of the job it is derived from
    the plan, which lacks only the time limit of the search.
    """
    documents.check(connection, tenant, Plan.prefix, plan)
    newest = (
        select(JobRow.asked)
        .where(JobRow.tenant == tenant, JobRow.plan == plan)
        .order_by(JobRow.created.desc(), JobRow.id.desc())
        .limit(1)
    )
    row = connection.execute(newest).first()
    # reading a large plan takes a second: only without a job
    body = _of_plan(connection, tenant, plan) if row is None else row.asked
    return _with_setup(connection, tenant, body)


def request_of_job(connection: Connection, tenant: Tenant, job: str) -> dict[str, Any]:
    """The request body of a job, of the endpoint of its kind. Raises NotFound."""
    mine = select(JobRow.asked).where(JobRow.tenant == tenant, JobRow.id == job)
    row = connection.execute(mine).first()
    if row is None:
        raise NotFound(f"no job has the id {job[:100]!r}")
    return _with_setup(connection, tenant, row.asked)


def _with_setup(connection: Connection, tenant: Tenant, body: dict[str, Any]) -> dict[str, Any]:
    if "setup" not in body:
        return body
    setup = documents.parsed(connection, tenant, Setup, body["setup"])
    return {**body, "setup": setup.to_dict()}


def _of_plan(connection: Connection, tenant: Tenant, id_: str) -> dict[str, Any]:
    plan = documents.parsed(connection, tenant, Plan, id_)
    wishes = plan.wishes.model_dump(mode="json", exclude_defaults=True)
    named = {"graph": plan.graph, "topology": plan.topology, "setup": plan.setup}
    body = {**named, **wishes}
    if documents.exists(connection, tenant, Calibration.prefix, plan.calibration):
        body["calibration"] = plan.calibration
    if plan.move is not None:
        body |= {"from_plan": plan.move.from_plan, "steps": plan.move.steps}
    return body
