"""The pipeline schedule of a plan, computed on request and not stored."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from meshwright_service.api import etags
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Reader
from meshwright_service.plan_views.schedule_view import PlanPasses, passes_of

router = APIRouter(prefix="/v1/plans/{plan}", tags=["plans"])
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": PlanPasses},
    304: etags.NOT_MODIFIED,
}


@router.get("/schedule", responses=ANSWERS, summary="Read the pipeline schedule of a plan")
def get_schedule(request: Request, service: Service, by: Reader, plan: str) -> Response:
    """The passes of every pipeline rank over a step, with starts and ends, and the bubble."""
    inspected = service.inspected.of(by.tenant, plan)
    return etags.recent_text(request, passes_of(inspected.plan).model_dump_json())
