"""Overview of a plan: its main numbers and stored results in one answer."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel
from sqlalchemy import Connection, select

from meshwright.schema import Certificate, Topology
from meshwright.schema.overview import Overview
from meshwright_service.api import etags
from meshwright_service.api.resources import PlanEntry, plan_entry_of
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Reader
from meshwright_service.common.tenant import Tenant
from meshwright_service.plan_views.views import OVERVIEW
from meshwright_service.store import certificates, documents, observations, plan_index
from meshwright_service.store.observations import ObservationEntry
from meshwright_service.store.pagination import PageRequest
from meshwright_service.store.tables import JobRow

router = APIRouter(prefix="/v1/plans/{plan}", tags=["plans"])
NEWEST = PageRequest(50)  # chosen: the newest observations; the list has all


class PlanOverview(BaseModel):
    """A plan without its ops, with its topology, certificate and newest observations.

    search: the id of the oldest job with the plan; None after the deletion of its jobs.
    """

    entry: PlanEntry
    topology: Topology
    search: str | None = None
    overview: Overview
    certificate: Certificate | None = None
    observations: tuple[ObservationEntry, ...]


ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": PlanOverview},
    304: etags.NOT_MODIFIED,
}


@router.get("/overview", responses=ANSWERS, summary="Read the overview of a plan")
def get_overview(request: Request, service: Service, by: Reader, plan: str) -> Response:
    """The numbers, stages, degrees, topology, certificate and observations of a plan."""
    overview = Overview.model_validate_json(service.views.part(by.tenant, plan, OVERVIEW))
    with service.database.reading() as connection:
        entry = plan_index.entry(connection, by.tenant, plan)
        topology = documents.parsed(connection, by.tenant, Topology, entry["topology"])
        search = _search(connection, by.tenant, plan)
        certificate = certificates.find(connection, by.tenant, plan)
        observed = observations.list_of_plan(connection, by.tenant, plan, NEWEST)
    answer = PlanOverview(
        entry=plan_entry_of(entry),
        topology=topology,
        search=search,
        overview=overview,
        certificate=certificate,
        observations=observed.items,
    )
    return etags.recent_text(request, answer.model_dump_json(exclude_none=True))


def _search(connection: Connection, tenant: Tenant, plan: str) -> str | None:
    oldest = (
        select(JobRow.id)
        .where(JobRow.tenant == tenant, JobRow.plan == plan)
        .order_by(JobRow.created, JobRow.id)
        .limit(1)
    )
    return connection.execute(oldest).scalar()
