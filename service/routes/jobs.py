"""Jobs: searches under way and what came of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Row

from service.jobs import JobFilter, has_ended
from service.paging import Paging
from service.period import During
from service.principals import Planner, Reader, Tenant
from service.resources import Job, JobList, JobState, job_of
from service.state import Service, State

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
Filter = Annotated[str | None, Query(max_length=100)]
Glob = Annotated[str | None, Query(min_length=1, max_length=200, description="`*` and `?`")]
LOOK_S = 0.05  # between two looks at a job that somebody waits for; chosen


@router.get("", response_model_exclude_none=True, summary="List jobs")
def list_jobs(
    service: Service,
    by: Reader,
    page: Paging,
    period: During,
    state: Annotated[list[JobState], Query(default_factory=list, max_length=5)],
    outcome: Annotated[Literal["optimal", "feasible", "infeasible"] | None, Query()] = None,
    model: Glob = None,
    topology: Filter = None,
) -> JobList:
    """Jobs, the newest first. state: one of these; model: a glob of names of graphs; since, until:
    when they were asked for."""
    wanted = JobFilter(state, outcome, model, topology, period)
    found = service.jobs.list(by.tenant, page, wanted)
    return JobList(jobs=tuple(map(job_of, found.items)), next_page_token=found.next_token)


@router.get("/{job}", response_model_exclude_none=True, summary="Read a job")
async def get_job(
    request: Request,
    service: Service,
    by: Reader,
    job: str,
    wait: Annotated[float, Query(ge=0, le=3600, description="Seconds to wait for its end")] = 0,
) -> Job:
    """One job; with `wait`, once nothing more will come of it or the time is over."""
    return job_of(await wait_for(request, service, by.tenant, job, wait, has_ended))


@router.post("/{job}/cancel", response_model_exclude_none=True, summary="Cancel a job")
def cancel_job(service: Service, by: Planner, job: str) -> Job:
    """End a job; what has ended stays as it is. The best plan so far may follow in a moment."""
    return job_of(service.jobs.cancel(by.tenant, job))


async def wait_for(
    request: Request,
    service: State,
    tenant: Tenant,
    job: str,
    seconds: float,
    what: Callable[[Row[Any]], bool],
) -> Row[Any]:
    """The job once `what` is so, the time is over, the caller has gone or the service stops."""
    if seconds <= 0:
        return await run_in_threadpool(service.jobs.get, tenant, job)
    with service.waits.one(tenant):
        return await _wait_for(request, service, tenant, job, seconds, what)


async def _wait_for(
    request: Request,
    service: State,
    tenant: Tenant,
    job: str,
    seconds: float,
    what: Callable[[Row[Any]], bool],
) -> Row[Any]:
    deadline = time.monotonic() + min(seconds, service.settings.max_wait_s)
    while True:
        row = await run_in_threadpool(service.jobs.get, tenant, job)
        left = deadline - time.monotonic()
        if what(row) or left <= 0 or service.stopping.is_set():
            return row
        if await request.is_disconnected():
            return row
        await asyncio.sleep(min(LOOK_S, left))
