"""The request bodies of plans and jobs, which a client can change and send again."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from meshwright.schema.agent import Measure
from meshwright.schema.canonical import canonical_json
from meshwright_service.api import etags
from meshwright_service.api.cost_graph_request import CostGraphRequest
from meshwright_service.api.request_of_plan import request_of_job, request_of_plan
from meshwright_service.api.routes.create_plan import PlanRequest
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Reader

router = APIRouter(prefix="/v1")
OF_PLAN: dict[int | str, dict[str, Any]] = {
    200: {"model": PlanRequest},
    304: etags.NOT_MODIFIED,
}
OF_JOB: dict[int | str, dict[str, Any]] = {
    200: {"model": PlanRequest | CostGraphRequest | Measure},
    304: etags.NOT_MODIFIED,
}


@router.get(
    "/plans/{plan}/request", tags=["plans"], responses=OF_PLAN,
    summary="Read the request of a plan",
)  # fmt: skip
def get_plan_request(request: Request, service: Service, by: Reader, plan: str) -> Response:
    """The body of POST /v1/plan that requests the plan again."""
    with service.database.reading() as connection:
        body = request_of_plan(connection, by.tenant, plan)
    return etags.recent_text(request, canonical_json(body))


@router.get(
    "/jobs/{job}/request", tags=["jobs"], responses=OF_JOB,
    summary="Read the request of a job",
)  # fmt: skip
def get_job_request(request: Request, service: Service, by: Reader, job: str) -> Response:
    """The body that requests the same again: of POST /v1/plan, POST /v1/cost-graphs:solve or POST
    /v1/calibrations:measure."""
    with service.database.reading() as connection:
        body = request_of_job(connection, by.tenant, job)
    return etags.recent_text(request, canonical_json(body))
