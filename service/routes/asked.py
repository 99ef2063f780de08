"""What plans and jobs were asked by: bodies to be changed, and sent again."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from meshwright.schema.agent import Measure
from meshwright.schema.canonical import canonical_json
from service import immutable
from service.asked import asked_by, asked_for
from service.principals import Reader
from service.routes.plan import PlanRequest
from service.state import Service

router = APIRouter(prefix="/v1")
OF_PLAN: dict[int | str, dict[str, Any]] = {
    200: {"model": PlanRequest},
    304: immutable.NOT_MODIFIED,
}
OF_JOB: dict[int | str, dict[str, Any]] = {
    200: {"model": PlanRequest | Measure},
    304: immutable.NOT_MODIFIED,
}


@router.get(
    "/plans/{plan}/request", tags=["plans"], responses=OF_PLAN,
    summary="Read what a plan was asked by",
)  # fmt: skip
def get_plan_request(request: Request, service: Service, by: Reader, plan: str) -> Response:
    """The body of POST /v1/plan that asks for the plan again."""
    with service.database.reading() as connection:
        asked = asked_for(connection, by.tenant, plan)
    return immutable.recent_text(request, canonical_json(asked))


@router.get(
    "/jobs/{job}/request", tags=["jobs"], responses=OF_JOB,
    summary="Read what a job was asked by",
)  # fmt: skip
def get_job_request(request: Request, service: Service, by: Reader, job: str) -> Response:
    """The body of POST /v1/plan that asks the same again, or of POST /v1/calibrations:measure."""
    with service.database.reading() as connection:
        asked = asked_by(connection, by.tenant, job)
    return immutable.recent_text(request, canonical_json(asked))
