"""Simulations of a plan's step, as numbers and as a trace, computed on request."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from meshwright.schema.simulation import Simulation
from meshwright_service.api import etags
from meshwright_service.api.state import Service, State
from meshwright_service.auth.principals import Reader
from meshwright_service.common.tenant import Tenant
from meshwright_service.plan_views.simulation_view import NUMBERS, SIMULATED, TRACE

router = APIRouter(prefix="/v1/plans/{plan}", tags=["simulations"])

SIMULATION: dict[int | str, dict[str, Any]] = {
    200: {"model": Simulation},
    304: etags.NOT_MODIFIED,
}
TIMELINE: dict[int | str, dict[str, Any]] = {304: etags.NOT_MODIFIED}


@router.get("/simulation", responses=SIMULATION, summary="Simulate the step of a plan")
def get_simulation(request: Request, service: Service, by: Reader, plan: str) -> Response:
    """The time of the step, its waits, and the memory of every rank."""
    return _part(request, service, by.tenant, plan, NUMBERS)


@router.get("/timeline", responses=TIMELINE, summary="Read the step of a plan as a Chrome trace")
def get_timeline(request: Request, service: Service, by: Reader, plan: str) -> Response:
    """The simulated step in the Trace Event Format, for Perfetto and chrome://tracing."""
    return _part(request, service, by.tenant, plan, TRACE)


def _part(request: Request, service: State, tenant: Tenant, plan: str, number: int) -> Response:
    tag = f"{plan} {SIMULATED.name} {number}".replace(" ", ".")
    if etags.holds(request, tag):
        service.views.check(tenant, plan)
        return etags.recent_not_modified(tag)
    return etags.recent_body(tag, service.views.part(tenant, plan, SIMULATED, number))
