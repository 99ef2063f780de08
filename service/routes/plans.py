"""Plans: the shelf."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from meshwright.runtime import rank_strategy
from meshwright.schema import Certificate, Document, Graph, Plan, Setup, Topology
from meshwright.schema.rank_strategy import RankStrategy
from service import certificates, deletion, documents, immutable
from service.paging import Paging
from service.principals import Admin, Reader
from service.resources import PlanList, plan_entry_of
from service.routes.documents import IN_USE, read_document
from service.state import Service

router = APIRouter(prefix="/v1/plans", tags=["plans"])
ONE: dict[int | str, dict[str, Any]] = {200: {"model": Plan}}
CERTIFICATE: dict[int | str, dict[str, Any]] = {200: {"model": Certificate}}
STRATEGY: dict[int | str, dict[str, Any]] = {
    200: {"model": RankStrategy},
    304: {"description": "The caller has it: If-None-Match names its ETag"},
}
Filter = Annotated[str | None, Query(max_length=100)]


@router.get("", response_model_exclude_none=True, summary="List plans")
def list_plans(
    service: Service, by: Reader, page: Paging, graph: Filter = None, topology: Filter = None
) -> PlanList:
    """Plans, the newest first."""
    with service.database.reading() as connection:
        found = documents.list_plans(connection, by.tenant, page, graph=graph, topology=topology)
    return PlanList(plans=tuple(map(plan_entry_of, found.items)), next_page_token=found.next_token)


@router.get("/{plan}", responses=ONE, summary="Read a plan")
def get_plan(request: Request, service: Service, by: Reader, plan: str) -> Response:
    """A plan in canonical form."""
    return read_document(request, service, by.tenant, "plan", plan)


@router.delete("/{plan}", status_code=204, responses=IN_USE, summary="Delete a plan")
def delete_plan(service: Service, by: Admin, plan: str) -> Response:
    """Delete a plan with its certificate, labels and observations, and the jobs that found it. 409
    while an open job needs it."""
    with service.database.writing() as connection:
        deletion.delete_plan(connection, by.tenant, plan, service.database.now)
    return Response(status_code=204)


@router.get("/{plan}/certificate", responses=CERTIFICATE, summary="Read a plan's certificate")
def get_certificate(request: Request, service: Service, by: Reader, plan: str) -> Response:
    """What executing a plan showed; 404 where nobody asked for that."""
    with service.database.reading() as connection:
        certificate = certificates.read(connection, by.tenant, plan)
    return _recent(request, certificate)  # a later execution may replace it


@router.get("/{plan}/ranks/{rank}/strategy", responses=STRATEGY, summary="Read one rank's share")
def get_rank_strategy(
    request: Request,
    service: Service,
    by: Reader,
    plan: str,
    rank: Annotated[int, Path(ge=0, le=2**20)],
) -> Response:
    """What one rank of a training job does: its coordinates, groups, local shapes, layouts and
    collectives, which part of every input it loads, the order of its passes and what it sends to
    other stages."""
    with service.database.reading() as connection:
        found = documents.parsed(connection, by.tenant, Plan, plan)
        graph = documents.parsed(connection, by.tenant, Graph, found.graph)
        setup = documents.parsed(connection, by.tenant, Setup, found.setup)
        topology = documents.parsed(connection, by.tenant, Topology, found.topology)
    # a newer version of the service may say more
    return _recent(request, rank_strategy(found, graph, setup, rank, topology))


def _recent(request: Request, document: Document) -> Response:
    """A document that may be another one later."""
    headers = {**immutable.headers_of(document.id), "Cache-Control": "private, no-cache"}
    if immutable.holds(request, document.id):
        return Response(status_code=304, headers=headers)
    return Response(document.to_json(), media_type=immutable.MEDIA_TYPE, headers=headers)
