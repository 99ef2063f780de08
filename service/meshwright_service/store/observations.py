"""Observations: measured steps of plans, with their ratio to the predicted step."""

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
    """An observation in a list. ratio: measured over predicted step time."""

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
    """Store an observation of a plan and the calibration that it anchors.

    Returns whether the observation is new, the ratio of measured to predicted step time, and the
    anchored calibration. All observations of the tenant with the same stack, calibration and
    topology count. Raises InvalidInput if the calibration of the plan is anchored.
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
    calibration = documents.calibration(connection, tenant, plan.calibration)
    anchored_calibration = anchored(calibration, list(ratios), observation.stack)
    calibrations.put_measured(connection, tenant, anchored_calibration, plan.topology, now=now)
    return new, ratio, anchored_calibration


def list_of_plan(
    connection: Connection, tenant: Tenant, plan: str, page: PageRequest
) -> Page[ObservationEntry]:
    """The observations of a plan, newest first; raises NotFound for an unknown plan."""
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
