"""The costliest ops of a plan, computed on request and not stored."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from meshwright.reports.costly_ops import costliest_ops
from meshwright.schema.costly_ops import CostliestOps
from meshwright_service.api import etags
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Reader

router = APIRouter(prefix="/v1/plans/{plan}", tags=["plans"])
USUAL = 10  # chosen: a page without scrolling
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": CostliestOps},
    304: etags.NOT_MODIFIED,
}


@router.get("/costliest-ops", responses=ANSWERS, summary="Read the costliest ops of a plan")
def get_costliest_ops(
    request: Request,
    service: Service,
    by: Reader,
    plan: str,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of groups")] = USUAL,
) -> Response:
    """The groups of equal ops with the longest compute and communication, each with the glob that
    explains it."""
    inspected = service.inspected.of(by.tenant, plan)
    return etags.recent(request, costliest_ops(inspected.plan, inspected.shares, limit))
