"""Comparisons: two plans beside each other. Nothing of them is stored."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from meshwright.inspecting.comparison import compare_plans
from meshwright.schema.comparison import Comparison
from service import immutable
from service.errors import ParameterError
from service.principals import Reader
from service.state import Service

router = APIRouter(prefix="/v1/comparisons", tags=["plans"])
ANSWERS: dict[int | str, dict[str, Any]] = {200: {"model": Comparison}, 304: immutable.NOT_MODIFIED}


@router.get("", responses=ANSWERS, summary="Compare two plans")
def get_comparison(
    request: Request,
    service: Service,
    by: Reader,
    plan: Annotated[list[str], Query(description="Ids of two stored plans: plan=a&plan=b")],
) -> Response:
    """Totals of both, and the ops that differ, repeats folded."""
    if len(plan) != 2:
        raise ParameterError(f"plan is given twice, for two plans; got {len(plan)}")
    first, second = (service.inspected.of(by.tenant, own) for own in plan)
    made = compare_plans(first.plan, first.graph, second.plan, second.graph)
    return immutable.recent(request, made)
