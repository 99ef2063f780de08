"""Communication of a plan, folded over repeats, computed on request and not stored."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from meshwright.reports.communication import communication_of
from meshwright.schema.communication import Communication
from meshwright_service.api import etags
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Reader

router = APIRouter(prefix="/v1/plans/{plan}", tags=["plans"])
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": Communication},
    304: etags.NOT_MODIFIED,
}


@router.get("/communication", responses=ANSWERS, summary="Read the communication of a plan")
def get_communication(request: Request, service: Service, by: Reader, plan: str) -> Response:
    """The redistributions and collectives of a plan, longest first: bytes, calls, time and the
    links that they cross. Repeats are one group."""
    inspected = service.inspected.of(by.tenant, plan)
    return etags.recent(request, communication_of(inspected.plan, inspected.shares))
