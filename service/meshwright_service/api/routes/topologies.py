"""Topologies: upload, list, read and delete; their rates."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from meshwright.schema import Topology
from meshwright.schema.topology_rates import TopologyRates
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.topology_rates import rates_in
from meshwright_service.api.request_body import JsonBody
from meshwright_service.api.resources import TopologyList, UploadAnswer
from meshwright_service.api.routes.documents import IN_USE, UPLOAD, entries, read_document, upload
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Admin, Planner, Reader
from meshwright_service.store import calibrations, deletion, documents, observation_history
from meshwright_service.store.observation_history import TopologyObservations
from meshwright_service.store.pagination import MAX_PAGE, PageRequest, Paging

router = APIRouter(prefix="/v1/topologies", tags=["topologies"])
EVERY = PageRequest(MAX_PAGE)
ONE: dict[int | str, dict[str, Any]] = {200: {"model": Topology}}


@router.post("", responses=UPLOAD, summary="Upload a topology", response_model=UploadAnswer)
def post_topology(service: Service, by: Planner, body: JsonBody) -> Response:
    """Store a topology: 201, or 200 if it was stored before."""
    return upload(service, by, Topology.from_dict(body.json()), "/v1/topologies")


@router.get("", response_model_exclude_none=True, summary="List topologies")
def list_topologies(service: Service, by: Reader, page: Paging) -> TopologyList:
    """Topologies, newest first."""
    listed = entries(service, by.tenant, "topo", page)
    return TopologyList(topologies=listed.items, next_page_token=listed.next_token)


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
    """The share of their data sheet rates that devices and links reach, by a calibration. Without
    `calibration` it is the one that plans for the topology use: the newest one fitted to samples of
    the topology and not anchored, else the default."""
    with service.database.reading() as connection:
        topology_document = documents.parsed(connection, by.tenant, Topology, topology)
        measured_here = calibrations.list_calibrations(connection, by.tenant, EVERY, topology)
        newest = calibrations.newest(connection, by.tenant, topology)
        id_ = calibration or newest or default_calibration().id
        rated_by = documents.calibration(connection, by.tenant, id_)
    is_measured_here = id_ in [entry.id for entry in measured_here.items]
    return rates_in(
        topology_document, rated_by, measured=is_measured_here and rated_by.anchored is None
    )


@router.get(
    "/{topology}/observations",
    response_model_exclude_none=True,
    summary="List the observed steps of a topology",
)
def get_topology_observations(service: Service, by: Reader, topology: str) -> TopologyObservations:
    """The newest observed steps of all plans for a topology beside their predictions, and their
    median and spread by software stack. An observation is a whole step: it measures no device and
    no link."""
    with service.database.reading() as connection:
        return observation_history.observations_of_topology(connection, by.tenant, topology)


@router.delete("/{topology}", status_code=204, responses=IN_USE, summary="Delete a topology")
def delete_topology(service: Service, by: Admin, topology: str) -> Response:
    """Delete a topology and its jobs without a plan. 409 while a plan or an open job needs it."""
    with service.database.writing() as connection:
        deletion.delete_input(connection, by.tenant, "topo", topology, service.database.now)
    return Response(status_code=204)
