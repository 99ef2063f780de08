"""Calibrations: upload, browse, read."""

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
    """Store a calibration: 201, or 200 where it was there already."""
    given = Calibration.from_dict(body.json())
    return upload(service, by, given, "/v1/calibrations", put=calibrations.put)


@router.get("", response_model_exclude_none=True, summary="List calibrations")
def list_calibrations(
    service: Service,
    by: Reader,
    page: Paging,
    topology: Annotated[str | None, Query(max_length=100)] = None,
) -> CalibrationList:
    """Calibrations, the newest first. topology: the id of the one that they were measured in."""
    with service.database.reading() as connection:
        found = calibrations.list_calibrations(connection, by.tenant, page, topology)
        of = calibrations.topologies_of(connection, by.tenant, [own.id for own in found.items])
    entries = (
        CalibrationEntry(**dict(entry_of(own)), topologies=of.get(own.id, ()))
        for own in found.items
    )
    return CalibrationList(calibrations=tuple(entries), next_page_token=found.next_token)


@router.get("/{calibration}", responses=ONE, summary="Read a calibration")
def get_calibration(request: Request, service: Service, by: Reader, calibration: str) -> Response:
    """A calibration in canonical form."""
    return read_document(request, service, by.tenant, "cal", calibration)


@router.get("/{calibration}/residuals", summary="Compare a calibration with its samples")
def get_residuals(service: Service, by: Reader, calibration: str) -> Residuals:
    """Predicted over measured, kind by kind; nothing of a calibration that was not fitted."""
    with service.database.reading() as connection:
        own = documents.parsed(connection, by.tenant, Calibration, calibration)
        samples = None if own.fitted is None else own.fitted.samples
        if samples is None or not documents.exists(connection, by.tenant, Samples.prefix, samples):
            return Residuals(calibration=calibration)
        measured = documents.parsed(connection, by.tenant, Samples, samples)
    return residuals_of(own, measured)


@router.delete("/{calibration}", status_code=204, responses=IN_USE, summary="Delete a calibration")
def delete_calibration(service: Service, by: Admin, calibration: str) -> Response:
    """Delete a calibration, the measurement that it came of, and the jobs that found no plan with
    it. 409 while a plan or an open job needs it."""
    with service.database.writing() as connection:
        deletion.delete_calibration(connection, by.tenant, calibration, service.database.now)
    return Response(status_code=204)
