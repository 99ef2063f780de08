"""Samples: measurements of agents, with the calibration and the topology derived from them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from meshwright.schema.samples import Samples
from meshwright_costmodel.fitting import fit_calibration
from meshwright_service.api.request_body import JsonBody
from meshwright_service.api.resources import Measured, SamplesList
from meshwright_service.api.routes.documents import IN_USE, entries, read_document, told
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Admin, Measurer, Reader
from meshwright_service.store import calibrations, deletion
from meshwright_service.store.pagination import Paging

router = APIRouter(prefix="/v1/samples", tags=["samples"])
ONE: dict[int | str, dict[str, Any]] = {200: {"model": Samples}}
UPLOAD: dict[int | str, dict[str, Any]] = {
    200: {"model": Measured, "description": "The samples were stored before"},
    201: {"model": Measured, "description": "The samples are stored; Location names them"},
}


@router.post("", responses=UPLOAD, summary="Upload samples", response_model=Measured)
def post_samples(service: Service, by: Measurer, body: JsonBody) -> Response:
    """Store samples, their topology and the calibration fitted to them."""
    samples = Samples.from_dict(body.json())
    calibration = fit_calibration(samples)
    with service.database.writing() as connection:
        now = service.database.now
        created = calibrations.put_samples(connection, by.tenant, samples, calibration, now=now)
    fitted = calibration.fitted
    assert fitted is not None
    answer = Measured(
        id=samples.id,
        topology=samples.topology.id,
        calibration=calibration.id,
        median_error=fitted.median_error,
    )
    return told(answer, created=created, location=f"/v1/samples/{samples.id}")


@router.get("", response_model_exclude_none=True, summary="List samples")
def list_samples(service: Service, by: Reader, page: Paging) -> SamplesList:
    """Samples, newest first."""
    listed = entries(service, by.tenant, "samples", page)
    return SamplesList(samples=listed.items, next_page_token=listed.next_token)


@router.get("/{samples}", responses=ONE, summary="Read samples")
def get_samples(request: Request, service: Service, by: Reader, samples: str) -> Response:
    """Samples in canonical form."""
    return read_document(request, service, by.tenant, "samples", samples)


@router.delete("/{samples}", status_code=204, responses=IN_USE, summary="Delete samples")
def delete_samples(service: Service, by: Admin, samples: str) -> Response:
    """Delete samples and their measurement. 409 while a calibration is fitted to them."""
    with service.database.writing() as connection:
        deletion.delete_samples(connection, by.tenant, samples, service.database.now)
    return Response(status_code=204)
