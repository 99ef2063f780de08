"""Sweeps: request, list, read, cancel and delete."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from meshwright.schema import Calibration, Graph
from meshwright.schema.sweep import Sweep
from meshwright_service.api.request_body import JsonBody
from meshwright_service.api.resources import SweepEntry, SweepList, SweepResource
from meshwright_service.api.state import Service, State
from meshwright_service.api.sweep_submission import SweepSubmission
from meshwright_service.auth.principals import Admin, Planner, Reader
from meshwright_service.common.clock import time_of
from meshwright_service.common.tenant import Tenant
from meshwright_service.jobs import sweeps
from meshwright_service.jobs.sweeps import SweepStatus
from meshwright_service.store.pagination import Paging

router = APIRouter(prefix="/v1/sweeps", tags=["sweeps"])
LOOK_S = 0.5  # chosen: seconds between two looks at the jobs of a sweep


class SweepRequest(Sweep):
    """A sweep of a graph: documents inline or by id, topologies also by the names of presets."""

    graph: Graph | str
    calibration: Calibration | str | None = None


ANSWER: dict[int | str, dict[str, Any]] = {
    202: {"model": SweepResource, "description": "The sweep; Location names it"}
}


@router.post("", status_code=202, responses=ANSWER, summary="Request a sweep")
def post_sweep(service: Service, by: Planner, body: JsonBody) -> Response:
    """Queue a search for each point that has no answer. The same sweep has the same id: requested
    again, it goes on with the points that were cancelled or failed."""
    id_ = SweepSubmission(service, by).of_body(body)
    resource = _read(service, by.tenant, id_)
    return Response(
        resource.model_dump_json(exclude_none=True),
        status_code=202,
        media_type="application/json",
        headers={"Location": f"/v1/sweeps/{id_}", "Cache-Control": "no-store"},
    )


@router.get("", response_model_exclude_none=True, summary="List sweeps")
def list_sweeps(service: Service, by: Reader, page: Paging) -> SweepList:
    """Sweeps, newest first."""
    with service.database.reading() as connection:
        listed = sweeps.list_sweeps(connection, by.tenant, page)
    return SweepList(
        sweeps=tuple(SweepEntry(**_entry(status)) for status in listed.items),
        next_page_token=listed.next_token,
    )


@router.get("/{sweep}", response_model_exclude_none=True, summary="Read a sweep")
async def get_sweep(
    request: Request,
    service: Service,
    by: Reader,
    sweep: str,
    wait: Annotated[
        float, Query(ge=0, le=3600, description="Seconds to wait for the next answer of a point")
    ] = 0,
) -> SweepResource:
    """A sweep with a row for each point; with `wait`, after a further point has an answer, or after
    the wait."""
    if wait > 0:
        status = await run_in_threadpool(_status, service, by.tenant, sweep)
        if status.state == "running":
            with service.waits.one(by.tenant):
                await _answer(request, service, by.tenant, status, wait)
    return await run_in_threadpool(_read, service, by.tenant, sweep)


@router.post("/{sweep}/cancel", response_model_exclude_none=True, summary="Cancel a sweep")
def cancel_sweep(service: Service, by: Planner, sweep: str) -> SweepResource:
    """Cancel the jobs that the sweep queued and no other sweep waits for. Answers stay."""
    database = service.database
    if _status(service, by.tenant, sweep).state == "running":
        with database.writing() as connection:
            sweeps.cancel(connection, by.tenant, sweep, now=database.now)
            jobs = sweeps.open_jobs(connection, by.tenant, sweep)
        for job in jobs:
            service.jobs.cancel(by.tenant, job)
    return _read(service, by.tenant, sweep)


@router.delete("/{sweep}", status_code=204, summary="Delete a sweep")
def delete_sweep(service: Service, by: Admin, sweep: str) -> Response:
    """Delete a sweep. Its jobs and plans stay."""
    with service.database.writing() as connection:
        sweeps.delete_sweep(connection, by.tenant, sweep)
    return Response(status_code=204)


async def _answer(
    request: Request, service: State, tenant: Tenant, first: SweepStatus, wait_s: float
) -> None:
    """Wait until a further point has an answer, the sweep ends, or the wait is over."""
    deadline = time.monotonic() + min(wait_s, service.settings.max_wait_s)
    status = first
    while status.state == "running" and status.done == first.done:
        is_over = time.monotonic() >= deadline or service.stopping.is_set()
        if is_over or await request.is_disconnected():
            return
        await asyncio.sleep(LOOK_S)
        status = await run_in_threadpool(_status, service, tenant, first.record.id)


def _status(service: State, tenant: Tenant, sweep: str) -> SweepStatus:
    with service.database.reading() as connection:
        return sweeps.status(connection, tenant, sweep)


def _read(service: State, tenant: Tenant, sweep: str) -> SweepResource:
    with service.database.reading() as connection:
        status = sweeps.status(connection, tenant, sweep)
        rows = sweeps.rows(connection, tenant, status.record)
    body = Sweep.from_dict(status.record.body)
    return SweepResource(**_entry(status), sweep=body, rows=rows)


def _entry(status: SweepStatus) -> dict[str, Any]:
    record = status.record
    return {
        "id": record.id,
        "name": record.body.get("name", ""),
        "state": status.state,
        "graph": record.graph,
        "graph_name": record.graph_name,
        "created_at": time_of(record.created),
        "key": record.key,
        "key_name": record.key_name,
        "done": status.done,
        "points": len(status.states),
    }
