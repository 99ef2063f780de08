"""Observations of plans: kept beside what was predicted, and a calibration anchored by them."""

from __future__ import annotations

from pydantic import BaseModel
from sqlalchemy import ColumnElement, Connection, select

from meshwright.schema import Calibration, Plan
from meshwright.schema.observation import Observation
from meshwright_costmodel.anchoring import anchored
from meshwright_service.common.clock import time_of
from meshwright_service.common.tenant import Tenant
from meshwright_service.store import calibrations, documents
from meshwright_service.store.insert_if_absent import insert_new
from meshwright_service.store.pagination import Page, PageRequest, read_page
from meshwright_service.store.tables import ObservationRow


class ObservationEntry(BaseModel):
    """An observation in a list. ratio: measured over predicted step."""

    id: str
    created_at: str
    ratio: float
    observation: Observation


def put(
    connection: Connection,
    tenant: Tenant,
    observation: Observation,
    plan: Plan,
    *,
    now: ColumnElement[float],
) -> tuple[bool, float, Calibration]:
    """Store an observation and the calibration that it anchors.

    plan: the observation's. (whether it is new, measured over predicted, the calibration).
    InvalidInput where the plan's calibration is anchored already. All the tenant's observations of
    the stack count, of all plans that this calibration made for this topology.
    """
    documents.need(connection, tenant, [plan.id])
    ratio = observation.step_ns / plan.cost.step_ns
    new = insert_new(
        connection,
        ObservationRow,
        tenant=tenant,
        id=observation.id,
        plan=plan.id,
        topology=plan.topology,
        calibration=plan.calibration,
        stack=observation.stack,
        created=now,
        ratio=ratio,
        body=observation.to_dict(),
    )
    ratios = connection.execute(
        select(ObservationRow.ratio)
        .where(
            ObservationRow.tenant == tenant,
            ObservationRow.calibration == plan.calibration,
            ObservationRow.topology == plan.topology,
            ObservationRow.stack == observation.stack,
        )
        .order_by(ObservationRow.created, ObservationRow.id)
    ).scalars()
    own = documents.calibration(connection, tenant, plan.calibration)
    made = anchored(own, list(ratios), observation.stack)
    calibrations.put_measured(connection, tenant, made, plan.topology, now=now)
    return new, ratio, made


def list_of_plan(
    connection: Connection, tenant: Tenant, plan: str, page: PageRequest
) -> Page[ObservationEntry]:
    """The observations of a plan, the newest first; NotFound without the plan."""
    documents.entry(connection, tenant, "plan", plan)
    statement = select(
        ObservationRow.id, ObservationRow.created, ObservationRow.ratio, ObservationRow.body
    ).where(ObservationRow.tenant == tenant, ObservationRow.plan == plan)
    rows, token = read_page(connection, statement, ObservationRow.created, ObservationRow.id, page)
    entries = tuple(
        ObservationEntry(
            id=row.id,
            created_at=time_of(row.created),
            ratio=row.ratio,
            observation=Observation.from_dict(row.body),
        )
        for row in rows
    )
    return Page(entries, token)
