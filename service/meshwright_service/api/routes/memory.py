"""Memory of a plan: the peak of every stage, and every rank over time."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from meshwright_service.api import etags
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Reader
from meshwright_service.plan_views.memory_curve import MOST_POINTS, RankCurve
from meshwright_service.plan_views.memory_view import PlanMemory
from meshwright_service.plan_views.simulation_view import CURVES, SIMULATED
from meshwright_service.plan_views.views import MEMORY

router = APIRouter(prefix="/v1/plans/{plan}", tags=["simulations"])


ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": PlanMemory},
    304: etags.NOT_MODIFIED,
}


@router.get("/memory", responses=ANSWERS, summary="Read the memory use of a plan")
def get_memory(
    request: Request,
    service: Service,
    by: Reader,
    plan: str,
    points: Annotated[
        int,
        Query(
            ge=0, le=MOST_POINTS, description="Points of the simulated memory curve of each rank"
        ),
    ] = 0,
) -> Response:
    """Peak memory of every stage in parts, the free memory of every rank and, with `points`, the
    memory curves of a simulated step."""
    memory = PlanMemory.model_validate_json(service.views.part(by.tenant, plan, MEMORY))
    if points:
        numbers = range(CURVES, CURVES + len(memory.ranks))
        parts = service.views.parts(by.tenant, plan, SIMULATED, numbers)
        curves = [RankCurve.model_validate_json(parts[number]) for number in numbers]
        shown = tuple(curve.shown(points) for curve in curves)
        memory = memory.model_copy(update={"over_time": shown})
    is_simulated = bool(points) or service.views.is_stored(by.tenant, plan, SIMULATED)
    memory = memory.model_copy(update={"is_simulated": is_simulated})
    return etags.recent_text(request, memory.model_dump_json())
