"""Overviews: all that a person wants to know of a plan first, in one answer."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from meshwright.inspecting.overview import overview_of
from meshwright.schema import Certificate, Setup, Topology
from meshwright.schema.overview import Overview
from service import certificates, documents, immutable, observations, shelf
from service.paging import PageRequest
from service.principals import Reader
from service.resources import ObservationEntry, PlanEntry, plan_entry_of
from service.state import Service

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
    found = service.inspected.of(by.tenant, plan)
    with service.database.reading() as connection:
        topology = documents.parsed(connection, by.tenant, Topology, found.plan.topology)
        setup = documents.parsed(connection, by.tenant, Setup, found.plan.setup)
        calibration = documents.calibration(connection, by.tenant, found.plan.calibration)
        entry = shelf.entry(connection, by.tenant, plan)
        certificate = certificates.find(connection, by.tenant, plan)
        observed = observations.list_of_plan(connection, by.tenant, plan, NEWEST)
    made = PlanOverview(
        entry=plan_entry_of(entry),
        overview=overview_of(found.plan, found.graph, topology, setup, calibration),
        certificate=certificate,
        observations=observed.items,
    )
    return immutable.recent_text(request, made.model_dump_json(exclude_none=True))
