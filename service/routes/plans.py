"""Plans: the shelf."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from meshwright.schema import Certificate, Plan
from service import certificates, documents, immutable
from service.paging import Paging
from service.resources import PlanList, plan_entry_of
from service.routes.documents import read_document
from service.state import Service

router = APIRouter(prefix="/v1/plans", tags=["plans"])
ONE: dict[int | str, dict[str, Any]] = {200: {"model": Plan}}
CERTIFICATE: dict[int | str, dict[str, Any]] = {200: {"model": Certificate}}
Filter = Annotated[str | None, Query(max_length=100)]


@router.get("", response_model_exclude_none=True, summary="List plans")
def list_plans(
    service: Service, page: Paging, graph: Filter = None, topology: Filter = None
) -> PlanList:
    """Plans, the newest first."""
    with service.database.reading() as connection:
        found = documents.list_plans(connection, page, graph=graph, topology=topology)
    return PlanList(plans=tuple(map(plan_entry_of, found.items)), next_page_token=found.next_token)


@router.get("/{plan}", responses=ONE, summary="Read a plan")
def get_plan(request: Request, service: Service, plan: str) -> Response:
    """A plan in canonical form."""
    return read_document(request, service, "plan", plan)


@router.get("/{plan}/certificate", responses=CERTIFICATE, summary="Read a plan's certificate")
def get_certificate(request: Request, service: Service, plan: str) -> Response:
    """What executing a plan showed; 404 where nobody asked for that."""
    with service.database.reading() as connection:
        certificate = certificates.read(connection, plan)
    # a later execution may replace it
    headers = {**immutable.headers_of(certificate.id), "Cache-Control": "private, no-cache"}
    if immutable.holds(request, certificate.id):
        return Response(status_code=304, headers=headers)
    return Response(certificate.to_json(), media_type=immutable.MEDIA_TYPE, headers=headers)
