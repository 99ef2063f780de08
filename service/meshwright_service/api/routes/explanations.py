"""Explanations: why an op has its strategy, and what every other one would do to the plan."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from meshwright.schema.explanation import Explanation
from meshwright_service.api import etags
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Reader

router = APIRouter(prefix="/v1/plans/{plan}", tags=["plans"])
USUAL_S = 5.0  # chosen: the ten or twenty most promising strategies of a large model
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": Explanation},
    304: etags.NOT_MODIFIED,
}


@router.get("/explain", responses=ANSWERS, summary="Why ops have their strategies")
def get_explanation(
    request: Request,
    service: Service,
    by: Reader,
    plan: str,
    op: Annotated[str, Query(min_length=1, max_length=512, description="Glob of names of ops")],
    seconds: Annotated[float, Query(gt=0, le=600, description="To search in")] = USUAL_S,
) -> Response:
    """Every strategy that the ops could have, the best plan with each, searched again, and how that
    falls short; what pins and the memory cost. What was not searched in time says so; asked again
    with more seconds more is. 429 where others are being worked out."""
    most = min(seconds, service.settings.explain_s)
    return etags.recent(request, service.explanations.of(by.tenant, plan, op, most))
