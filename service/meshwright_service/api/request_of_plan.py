"""What a plan or a job was asked by: the body that would ask for it again."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from meshwright.schema import Calibration, NotFound, Plan, Setup
from meshwright_service.common.tenant import Tenant
from meshwright_service.store import documents
from meshwright_service.store.tables import JobRow


def asked_for(connection: Connection, tenant: Tenant, plan: str) -> dict[str, Any]:
    """A body of POST /v1/plan: documents by id, and the setup itself, which is not asked for by id.

    It is that of the newest job that found the plan. Jobs are not kept for ever: without one it is
    what the plan says of it, which is all but the seconds that the search had. NotFound.
    """
    documents.check(connection, tenant, Plan.prefix, plan)
    newest = (
        select(JobRow.asked)
        .where(JobRow.tenant == tenant, JobRow.plan == plan)
        .order_by(JobRow.created.desc(), JobRow.id.desc())
        .limit(1)
    )
    row = connection.execute(newest).first()
    # a large plan is read in a second: only where nothing else says it
    asked = _of_plan(connection, tenant, plan) if row is None else row.asked
    return _with_setup(connection, tenant, asked)


def asked_by(connection: Connection, tenant: Tenant, job: str) -> dict[str, Any]:
    """The same of a job, plan or no plan; of a measurement a body of POST
    /v1/calibrations:measure. NotFound."""
    mine = select(JobRow.asked).where(JobRow.tenant == tenant, JobRow.id == job)
    row = connection.execute(mine).first()
    if row is None:
        raise NotFound(f"no job has the id {job[:100]!r}")
    return _with_setup(connection, tenant, row.asked)


def _with_setup(connection: Connection, tenant: Tenant, asked: dict[str, Any]) -> dict[str, Any]:
    if "setup" not in asked:
        return asked
    setup = documents.parsed(connection, tenant, Setup, asked["setup"])
    return {**asked, "setup": setup.to_dict()}


def _of_plan(connection: Connection, tenant: Tenant, id_: str) -> dict[str, Any]:
    plan = documents.parsed(connection, tenant, Plan, id_)
    wishes = plan.wishes.model_dump(mode="json", exclude_defaults=True)
    named = {"graph": plan.graph, "topology": plan.topology, "setup": plan.setup}
    asked = {**named, **wishes}
    if documents.exists(connection, tenant, Calibration.prefix, plan.calibration):
        asked["calibration"] = plan.calibration
    if plan.move is not None:
        asked |= {"from_plan": plan.move.from_plan, "steps": plan.move.steps}
    return asked
