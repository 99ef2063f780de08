"""Calibrations: upload, list, read and delete; their residuals."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from meshwright.schema import Calibration
from meshwright.schema.residuals import Residuals
from meshwright.schema.samples import Samples
from meshwright_costmodel.residuals import residuals_of
from meshwright_service.api.request_body import JsonBody
from meshwright_service.api.resources import (
    CalibrationEntry,
    CalibrationList,
    UploadAnswer,
    entry_of,
)
from meshwright_service.api.routes.documents import IN_USE, UPLOAD, read_document, upload
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Admin, Planner, Reader
from meshwright_service.store import calibrations, deletion, documents
from meshwright_service.store.pagination import Paging

router = APIRouter(prefix="/v1/calibrations", tags=["calibrations"])
ONE: dict[int | str, dict[str, Any]] = {200: {"model": Calibration}}


@router.post("", responses=UPLOAD, summary="Upload a calibration", response_model=UploadAnswer)
def post_calibration(service: Service, by: Planner, body: JsonBody) -> Response:
    """Store a calibration: 201, or 200 if it was stored before."""
    calibration = Calibration.from_dict(body.json())
    return upload(service, by, calibration, "/v1/calibrations", put=calibrations.put)


@router.get("", response_model_exclude_none=True, summary="List calibrations")
def list_calibrations(
    service: Service,
    by: Reader,
    page: Paging,
    topology: Annotated[str | None, Query(max_length=100)] = None,
) -> CalibrationList:
    """Calibrations, newest first. topology: the id of the topology of their measurement."""
    with service.database.reading() as connection:
        listed = calibrations.list_calibrations(connection, by.tenant, page, topology)
        topologies = calibrations.topologies_of(
            connection, by.tenant, [entry.id for entry in listed.items]
        )
    entries = (
        CalibrationEntry(**dict(entry_of(entry)), topologies=topologies.get(entry.id, ()))
        for entry in listed.items
    )
    return CalibrationList(calibrations=tuple(entries), next_page_token=listed.next_token)


@router.get("/{calibration}", responses=ONE, summary="Read a calibration")
def get_calibration(request: Request, service: Service, by: Reader, calibration: str) -> Response:
    """A calibration in canonical form."""
    return read_document(request, service, by.tenant, "cal", calibration)


@router.get("/{calibration}/residuals", summary="Compare a calibration with its samples")
def get_residuals(service: Service, by: Reader, calibration: str) -> Residuals:
    """Predicted over measured time by kind; empty for a calibration that was not fitted."""
    with service.database.reading() as connection:
        fitted_calibration = documents.parsed(connection, by.tenant, Calibration, calibration)
        samples = None if fitted_calibration.fitted is None else fitted_calibration.fitted.samples
        if samples is None or not documents.exists(connection, by.tenant, Samples.prefix, samples):
            return Residuals(calibration=calibration)
        measured = documents.parsed(connection, by.tenant, Samples, samples)
    return residuals_of(fitted_calibration, measured)


@router.delete("/{calibration}", status_code=204, responses=IN_USE, summary="Delete a calibration")
def delete_calibration(service: Service, by: Admin, calibration: str) -> Response:
    """Delete a calibration, its measurement, and its jobs without a plan. 409 while a plan or an
    open job needs it."""
    with service.database.writing() as connection:
        deletion.delete_calibration(connection, by.tenant, calibration, service.database.now)
    return Response(status_code=204)
