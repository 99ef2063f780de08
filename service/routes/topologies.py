"""Topologies: upload, browse, read."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from costmodel.calibrations import default_calibration
from costmodel.topology_rates import rates_in
from meshwright.schema import Topology
from meshwright.schema.rates import TopologyRates
from service import calibrations, deletion, documents
from service.body import Body, read_body
from service.paging import MAX_PAGE, PageRequest, Paging
from service.principals import Admin, Planner, Reader
from service.resources import Stored, TopologyList
from service.routes.documents import IN_USE, UPLOAD, entries, read_document, upload
from service.state import Service

router = APIRouter(prefix="/v1/topologies", tags=["topologies"])
EVERY = PageRequest(MAX_PAGE)
ONE: dict[int | str, dict[str, Any]] = {200: {"model": Topology}}


@router.post("", responses=UPLOAD, summary="Upload a topology", response_model=Stored)
def post_topology(
    service: Service, by: Planner, body: Annotated[Body, Depends(read_body)]
) -> Response:
    """Store a topology: 201, or 200 where it was there already."""
    return upload(service, by, Topology.from_dict(body.json()), "/v1/topologies")


@router.get("", response_model_exclude_none=True, summary="List topologies")
def list_topologies(service: Service, by: Reader, page: Paging) -> TopologyList:
    """Topologies, the newest first."""
    found = entries(service, by.tenant, "topo", page)
    return TopologyList(topologies=found.items, next_page_token=found.next_token)


@router.get("/{topology}", responses=ONE, summary="Read a topology")
def get_topology(request: Request, service: Service, by: Reader, topology: str) -> Response:
    """A topology in canonical form."""
    return read_document(request, service, by.tenant, "topo", topology)


@router.get("/{topology}/rates", summary="Compare a topology with its data sheet")
def get_rates(
    service: Service,
    by: Reader,
    topology: str,
    calibration: Annotated[str | None, Query(max_length=100)] = None,
) -> TopologyRates:
    """What devices and links keep of what they promise: by the calibration that is named, else by
    the newest that was measured in the topology, else by the one that plans are made with where
    nobody asks for another."""
    with service.database.reading() as connection:
        own = documents.parsed(connection, by.tenant, Topology, topology)
        found = calibrations.list_calibrations(connection, by.tenant, EVERY, topology)
        measured = [entry.id for entry in found.items]
        id_ = calibration or next(iter(measured), default_calibration().id)
        by_it = documents.calibration(connection, by.tenant, id_)
    return rates_in(own, by_it, measured=id_ in measured)


@router.delete("/{topology}", status_code=204, responses=IN_USE, summary="Delete a topology")
def delete_topology(service: Service, by: Admin, topology: str) -> Response:
    """Delete a topology, and the jobs that found no plan for it. 409 while a plan or an open job
    needs it."""
    with service.database.writing() as connection:
        deletion.delete_input(connection, by.tenant, "topo", topology, service.database.now)
    return Response(status_code=204)
