"""Comparisons of plans, computed on request and not stored."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from meshwright.reports.comparison import compare_plans
from meshwright.reports.comparison_table import TableSide, comparison_table
from meshwright.schema import Setup, Topology
from meshwright.schema.comparison import Comparison
from meshwright.schema.comparison_table import MOST_PLANS, ComparisonTable
from meshwright_service.api import etags
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Reader
from meshwright_service.common.errors import ParameterError
from meshwright_service.store import documents

router = APIRouter(prefix="/v1/comparisons", tags=["plans"])
TABLE: dict[int | str, dict[str, Any]] = {
    200: {"model": ComparisonTable},
    304: etags.NOT_MODIFIED,
}
ANSWERS: dict[int | str, dict[str, Any]] = {200: {"model": Comparison}, 304: etags.NOT_MODIFIED}


@router.get("", responses=ANSWERS, summary="Compare two plans")
def get_comparison(
    request: Request,
    service: Service,
    by: Reader,
    plan: Annotated[list[str], Query(description="Ids of two stored plans: plan=a&plan=b")],
) -> Response:
    """Totals of both plans, and the ops that differ, with repeats folded."""
    if len(plan) != 2:
        raise ParameterError(f"plan is given twice, for two plans; got {len(plan)}")
    first, second = (service.inspected.of(by.tenant, id_) for id_ in plan)
    with service.database.reading() as connection:
        setups = [
            documents.parsed(connection, by.tenant, Setup, side.plan.setup)
            for side in (first, second)
        ]
        names = [
            documents.entry(connection, by.tenant, Topology.prefix, side.plan.topology).name
            for side in (first, second)
        ]
    comparison = compare_plans(
        first.plan,
        first.graph,
        second.plan,
        second.graph,
        setups=(setups[0], setups[1]),
        topologies=(names[0], names[1]),
    )
    return etags.recent(request, comparison)


@router.get("/table", responses=TABLE, summary="Compare several plans in a table")
def get_comparison_table(
    request: Request,
    service: Service,
    by: Reader,
    plan: Annotated[
        list[str], Query(description=f"Ids of 2 to {MOST_PLANS} stored plans: plan=a&plan=b&plan=c")
    ],
    baseline: Annotated[
        str | None,
        Query(max_length=100, description="The id of the plan to compare with; the first plan"),
    ] = None,
) -> Response:
    """One column for each plan: figures with the best value of each, the differences from the
    baseline, and the options in which the requests differ."""
    if not 2 <= len(plan) <= MOST_PLANS:
        raise ParameterError(f"plan is given 2 to {MOST_PLANS} times; got {len(plan)}")
    if baseline is not None and baseline not in plan:
        raise ParameterError(f"baseline {baseline!r} is none of the plans")
    inspected = [service.inspected.of(by.tenant, id_) for id_ in plan]
    with service.database.reading() as connection:
        sides = [
            TableSide(
                plan=each.plan,
                graph=each.graph,
                setup=documents.parsed(connection, by.tenant, Setup, each.plan.setup),
                topology=documents.parsed(connection, by.tenant, Topology, each.plan.topology),
            )
            for each in inspected
        ]
    table = comparison_table(sides, 0 if baseline is None else plan.index(baseline))
    return etags.recent(request, table)
