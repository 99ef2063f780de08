"""Simulations: a plan's step run task by task, as numbers and as a trace. Made when asked for."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from meshwright.schema import Graph, Plan, Setup, Topology
from meshwright.schema.canonical import canonical_json
from meshwright.schema.simulation import Simulation
from service import documents, immutable
from service.principals import Reader, Tenant
from service.state import Service, State
from solver.simulation.step import Step, step_of
from solver.simulation.summary import simulation_of
from solver.simulation.trace import trace_of

router = APIRouter(prefix="/v1/plans/{plan}", tags=["simulations"])

NUMBERS: dict[int | str, dict[str, Any]] = {200: {"model": Simulation}}
# a newer version of the service may simulate otherwise
CACHE = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}


@router.get("/simulation", responses=NUMBERS, summary="Simulate a plan's step")
def get_simulation(request: Request, service: Service, by: Reader, plan: str) -> Response:
    """How long the step takes, what is waited for, and the memory of every rank."""
    return immutable.recent(request, simulation_of(step_read(service, by.tenant, plan)))


@router.get("/timeline", summary="A plan's step as a Chrome trace")
def get_timeline(service: Service, by: Reader, plan: str) -> Response:
    """The Trace Event Format: Perfetto and chrome://tracing open it."""
    trace = trace_of(step_read(service, by.tenant, plan))
    return Response(canonical_json(trace), media_type=immutable.MEDIA_TYPE, headers=CACHE)


def step_read(service: State, tenant: Tenant, id_: str) -> Step:
    """The step of a stored plan."""
    with service.database.reading() as connection:
        plan = documents.parsed(connection, tenant, Plan, id_)
        graph = documents.parsed(connection, tenant, Graph, plan.graph)
        topology = documents.parsed(connection, tenant, Topology, plan.topology)
        setup = documents.parsed(connection, tenant, Setup, plan.setup)
        calibration = documents.calibration(connection, tenant, plan.calibration)
    return step_of(plan, graph, topology, setup, calibration)
