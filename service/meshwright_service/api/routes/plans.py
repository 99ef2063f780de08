"""Plans: list, read and delete; their certificates and rank strategies."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from meshwright.runtime import rank_strategy
from meshwright.schema import Certificate, Graph, Plan, Setup, Topology
from meshwright.schema.rank_strategy import RankStrategy
from meshwright.schema.request_options import Solver
from meshwright.schema.target import Target
from meshwright_service.api import etags
from meshwright_service.api.resources import PlanList, PlanPointEntry, PlanPointList, plan_entry_of
from meshwright_service.api.routes.documents import IN_USE, read_document
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Admin, Reader
from meshwright_service.store import certificates, deletion, documents, plan_index
from meshwright_service.store.pagination import Paging
from meshwright_service.store.plan_index import PlanFilter, PlanSort
from meshwright_service.store.time_range import During

router = APIRouter(prefix="/v1/plans", tags=["plans"])
ONE: dict[int | str, dict[str, Any]] = {200: {"model": Plan}}
CERTIFICATE: dict[int | str, dict[str, Any]] = {200: {"model": Certificate}}
STRATEGY: dict[int | str, dict[str, Any]] = {
    200: {"model": RankStrategy},
    304: etags.NOT_MODIFIED,
}
Filter = Annotated[str | None, Query(max_length=100)]
Glob = Annotated[str | None, Query(min_length=1, max_length=200, description="`*` and `?`")]
MOST_POINTS = 2000  # chosen: dots that a chart can show
Outcome = Literal["verified", "failed", "not verifiable"]


def plan_filter(
    period: During,
    graph: Filter = None,
    topology: Filter = None,
    model: Glob = None,
    label: Glob = None,
    outcome: Annotated[Literal["optimal", "feasible"] | None, Query()] = None,
    solver: Annotated[Solver | None, Query()] = None,
    certificate: Annotated[Outcome | None, Query()] = None,
    key: Filter = None,
    calibration: Filter = None,
    target: Annotated[Target | Literal["none"] | None, Query()] = None,
    fits: Annotated[bool | None, Query(description="Peak memory within the device memory")] = None,
    headroom: Annotated[
        float | None, Query(ge=0, le=1, description="The least free share of the device memory")
    ] = None,
    batch: Annotated[int | None, Query(ge=1)] = None,
    devices: Annotated[int | None, Query(ge=1)] = None,
) -> PlanFilter:
    """The filter of the query parameters."""
    return PlanFilter(
        graph=graph, topology=topology, model=model, label=label, outcome=outcome, solver=solver,
        certificate=certificate, key=key, calibration=calibration, period=period, target=target,
        fits=fits, headroom=headroom, batch=batch, devices=devices,
    )  # fmt: skip


Wanted = Annotated[PlanFilter, Depends(plan_filter)]


@router.get("", response_model_exclude_none=True, summary="List plans")
def list_plans(
    service: Service,
    by: Reader,
    page: Paging,
    wanted: Wanted,
    sort: Annotated[
        PlanSort | None, Query(description="Ascending; with a minus before it, descending")
    ] = None,
) -> PlanList:
    """Plans, newest first unless sorted. Throughput counts tokens, or samples of a graph without
    sequences. model: a glob on the names of graphs. label: a glob that one of the
    labels matches. key: the id of the key of the request. since, until: the time of the storage."""
    with service.database.reading() as connection:
        listed = plan_index.list_plans(connection, by.tenant, page, wanted, sort)
    return PlanList(
        plans=tuple(map(plan_entry_of, listed.items)), next_page_token=listed.next_token
    )


@router.get("/points", response_model_exclude_none=True, summary="The figures of many plans")
def list_plan_points(
    service: Service,
    by: Reader,
    wanted: Wanted,
    limit: Annotated[int, Query(ge=1, le=MOST_POINTS)] = MOST_POINTS,
) -> PlanPointList:
    """The newest plans of a filter as points of a chart, with the filters of the list of plans."""
    with service.database.reading() as connection:
        points, total = plan_index.plan_points(connection, by.tenant, wanted, limit)
    return PlanPointList(
        points=tuple(PlanPointEntry(**asdict(point)) for point in points), total=total
    )


@router.get("/{plan}", responses=ONE, summary="Read a plan")
def get_plan(request: Request, service: Service, by: Reader, plan: str) -> Response:
    """A plan in canonical form."""
    return read_document(request, service, by.tenant, "plan", plan)


@router.delete("/{plan}", status_code=204, responses=IN_USE, summary="Delete a plan")
def delete_plan(service: Service, by: Admin, plan: str) -> Response:
    """Delete a plan with its certificate, labels, observations and jobs. 409 while an open job
    needs it."""
    with service.database.writing() as connection:
        deletion.delete_plan(connection, by.tenant, plan, service.database.now)
    return Response(status_code=204)


@router.get("/{plan}/certificate", responses=CERTIFICATE, summary="Read a plan's certificate")
def get_certificate(request: Request, service: Service, by: Reader, plan: str) -> Response:
    """The certificate of a plan, from its execution; 404 without one."""
    with service.database.reading() as connection:
        certificate = certificates.read(connection, by.tenant, plan)
    return etags.recent(request, certificate)  # a later execution may replace it


@router.get(
    "/{plan}/ranks/{rank}/strategy", responses=STRATEGY, summary="Read the strategy of one rank"
)
def get_rank_strategy(
    request: Request,
    service: Service,
    by: Reader,
    plan: str,
    rank: Annotated[int, Path(ge=0, le=2**20)],
) -> Response:
    """The strategy of one rank: its coordinates, groups, local shapes, layouts and collectives, the
    part of every input that it loads, the order of its passes and its sends to other stages."""
    with service.database.reading() as connection:
        plan_document = documents.parsed(connection, by.tenant, Plan, plan)
        graph = documents.parsed(connection, by.tenant, Graph, plan_document.graph)
        setup = documents.parsed(connection, by.tenant, Setup, plan_document.setup)
        topology = documents.parsed(connection, by.tenant, Topology, plan_document.topology)
    return etags.recent(request, rank_strategy(plan_document, graph, setup, rank, topology))
