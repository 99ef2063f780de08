"""Explanations: the reason of an op's strategy, and the effect of every other strategy."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from meshwright.schema.explanation import Explanation
from meshwright_service.api import etags
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Reader

router = APIRouter(prefix="/v1/plans/{plan}", tags=["plans"])
USUAL_S = 5.0  # chosen: enough for the ten or twenty best strategies of a large model
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": Explanation},
    304: etags.NOT_MODIFIED,
}


@router.get("/explain", responses=ANSWERS, summary="Explain the strategies of ops")
def get_explanation(
    request: Request,
    service: Service,
    by: Reader,
    plan: str,
    op: Annotated[str, Query(min_length=1, max_length=512, description="Glob of names of ops")],
    seconds: Annotated[
        float, Query(gt=0, le=600, description="Time limit of the search")
    ] = USUAL_S,
) -> Response:
    """Every strategy of the ops, the best plan with each, and its difference to the plan; also the
    cost of pins and of the memory limit. Strategies that exceed the time limit are marked; request
    again with more seconds. 429 while other explanations are computed."""
    most = min(seconds, service.settings.explain_s)
    return etags.recent(request, service.explanations.of(by.tenant, plan, op, most))
