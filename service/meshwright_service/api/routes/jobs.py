"""Jobs: list, read, wait and cancel."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Row

from meshwright_service.api.resources import JobList, JobResource, JobState, Outcome, job_of
from meshwright_service.api.state import Service, State
from meshwright_service.auth.principals import Planner, Reader
from meshwright_service.common.tenant import Tenant
from meshwright_service.jobs.jobs import JobFilter, has_ended
from meshwright_service.jobs.kinds import JobKind
from meshwright_service.store.pagination import Paging
from meshwright_service.store.time_range import During

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
Filter = Annotated[str | None, Query(max_length=100)]
Glob = Annotated[str | None, Query(min_length=1, max_length=200, description="`*` and `?`")]
WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*(\d{1,6})\b")
CALLER_S = 2.0  # chosen: interval of checking that the client is connected


@router.get("", response_model_exclude_none=True, summary="List jobs")
def list_jobs(
    service: Service,
    by: Reader,
    page: Paging,
    period: During,
    state: Annotated[list[JobState], Query(default_factory=list, max_length=5)],
    kind: Annotated[JobKind | None, Query()] = None,
    outcome: Annotated[Outcome | None, Query()] = None,
    model: Glob = None,
    topology: Filter = None,
) -> JobList:
    """Jobs, newest first. state: any of these states. model: a glob on the names of graphs. since,
    until: the time of the submission."""
    wanted = JobFilter(state, kind, outcome, model, topology, period)
    rows = service.jobs.list(by.tenant, page, wanted)
    return JobList(jobs=tuple(map(job_of, rows.items)), next_page_token=rows.next_token)


@router.get("/{job}", response_model_exclude_none=True, summary="Read a job")
async def get_job(
    request: Request,
    service: Service,
    by: Reader,
    job: str,
    wait: Annotated[
        float, Query(ge=0, le=3600, description="Seconds to wait for the end of the job")
    ] = 0,
) -> JobResource:
    """One job; with `wait`, after it can no longer change or after the wait."""
    return job_of(await wait_for(request, service, by.tenant, job, wait, has_ended))


@router.post("/{job}/cancel", response_model_exclude_none=True, summary="Cancel a job")
def cancel_job(service: Service, by: Planner, job: str) -> JobResource:
    """Cancel a job; an ended job is unchanged. The best plan so far may be stored afterward."""
    return job_of(service.jobs.cancel(by.tenant, job))


def preferred_wait_s(prefer: str | None) -> float | None:
    """The wait of a Prefer header, in seconds; None without one."""
    preference = WAIT.search(prefer or "")
    return None if preference is None else float(preference.group(1))


async def wait_for(
    request: Request,
    service: State,
    tenant: Tenant,
    job: str,
    seconds: float,
    is_done: Callable[[Row[Any]], bool],
) -> Row[Any]:
    """The job after `is_done`, the wait, a disconnection of the client or a stop of the service."""
    if seconds <= 0:
        return await run_in_threadpool(service.jobs.get, tenant, job)
    with service.waits.one(tenant):
        return await _wait_for(request, service, tenant, job, seconds, is_done)


async def _wait_for(
    request: Request,
    service: State,
    tenant: Tenant,
    job: str,
    seconds: float,
    is_done: Callable[[Row[Any]], bool],
) -> Row[Any]:
    deadline = time.monotonic() + min(seconds, service.settings.max_wait_s)

    def get() -> Row[Any]:
        return service.jobs.get(tenant, job)

    with service.watch.follow(tenant, job) as follower:
        row = await run_in_threadpool(get)
        if is_done(row) or service.stopping.is_set():
            return row
        while (left_s := deadline - time.monotonic()) > 0:
            await follower.change(min(left_s, CALLER_S))
            row = await follower.read("row", get)
            if is_done(row) or service.stopping.is_set() or await request.is_disconnected():
                return row
    return await run_in_threadpool(get)
