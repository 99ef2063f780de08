"""Overviews: all that a person wants to know of a plan first, in one answer."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from meshwright.schema import Certificate, Setup, Topology
from meshwright.schema.overview import Overview
from service import certificates, derived, documents, immutable, observations, shelf
from service.packing import unpack
from service.paging import PageRequest
from service.principals import Reader, Tenant
from service.resources import ObservationEntry, PlanEntry, plan_entry_of
from service.state import Service, State
from service.views import OVERVIEW, overview_parts

router = APIRouter(prefix="/v1/plans/{plan}", tags=["plans"])
NEWEST = PageRequest(50)  # chosen: observations that are shown; the list has all


class PlanOverview(BaseModel):
    """A plan without its ops, and what is stored beside it. observations: the newest."""

    entry: PlanEntry
    overview: Overview
    certificate: Certificate | None = None
    observations: tuple[ObservationEntry, ...]


ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": PlanOverview},
    304: immutable.NOT_MODIFIED,
}


@router.get("/overview", responses=ANSWERS, summary="A plan without its ops")
def get_overview(request: Request, service: Service, by: Reader, plan: str) -> Response:
    """Numbers, stages, degrees, certificate and observations of a plan."""
    with service.database.reading() as connection:
        entry = shelf.entry(connection, by.tenant, plan)
        certificate = certificates.find(connection, by.tenant, plan)
        observed = observations.list_of_plan(connection, by.tenant, plan, NEWEST)
        kept = derived.read(connection, plan, OVERVIEW, [0])
    overview = Overview.model_validate_json(kept.get(0) or _made(service, by.tenant, plan))
    made = PlanOverview(
        entry=plan_entry_of(entry),
        overview=overview,
        certificate=certificate,
        observations=observed.items,
    )
    return immutable.recent_text(request, made.model_dump_json(exclude_none=True))


def _made(service: State, tenant: Tenant, id_: str) -> bytes:
    """The overview as it is kept from now on."""
    found = service.inspected.of(tenant, id_)
    plan = found.plan
    with service.database.reading() as connection:
        topology = documents.parsed(connection, tenant, Topology, plan.topology)
        setup = documents.parsed(connection, tenant, Setup, plan.setup)
        calibration = documents.calibration(connection, tenant, plan.calibration)
    parts = overview_parts(plan, found.graph, topology, setup, calibration)
    derived.keep(service.database, id_, OVERVIEW, parts)
    return unpack(parts[0])
