"""The events of a job as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, ServerSentEvent
from sqlalchemy import Row

from meshwright_service.api.resources import job_of
from meshwright_service.api.state import Service, State
from meshwright_service.auth.principals import Reader
from meshwright_service.common.clock import time_of
from meshwright_service.common.errors import ParameterError
from meshwright_service.common.tenant import Tenant
from meshwright_service.jobs import events as job_events
from meshwright_service.jobs.jobs import has_ended

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
LOOK_S = 10.0  # chosen: maximum interval of reading the events, in case a wake-up is missed
AT_ONCE = 500  # events in one query; chosen
STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/event-stream": {
                "example": "event: progress\n"
                'data: {"at":"2026-11-22T10:00:01Z","attempt":1,"progress":{"phase":"searching",'
                '"done":3,"total":8}}\nid: 7\n\n'
            }
        },
        "description": "Events until the job can no longer change; the last event is the job",
    }
}


def existing_job(service: Service, by: Reader, job: str) -> str:
    """The id of an existing job; raises NotFound before the stream starts."""
    service.jobs.get(by.tenant, job)
    return job


async def counted_wait(service: Service, by: Reader) -> AsyncIterator[None]:
    """Count the stream as a waiting request of the tenant."""
    with service.waits.one(by.tenant):
        yield


async def last_seen(
    last_event_id: Annotated[
        str | None, Header(description="The id of the last received event")
    ] = None,
) -> int:
    """The number of the last event that the client has; 0 for none."""
    if not last_event_id:
        return 0
    if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 10):
        raise ParameterError(
            f"Last-Event-ID {last_event_id[:40]!r} is not the id of an event. Use a received id"
        )
    return int(last_event_id)


@router.get(
    "/{job}/events", response_class=EventSourceResponse, responses=STREAM,
    summary="Follow a job",
)  # fmt: skip
async def events(
    service: Service,
    by: Reader,
    job: Annotated[str, Depends(existing_job)],
    after: Annotated[int, Depends(last_seen)],
    _: Annotated[None, Depends(counted_wait)],
) -> AsyncIterator[ServerSentEvent]:
    """State, progress, plan and solution of a job as they change, from the first event or after
    Last-Event-ID."""

    def look() -> tuple[Row[Any], list[Row[Any]]]:
        return _look(service, by.tenant, job, after)

    with service.watch.follow(by.tenant, job) as follower:
        row, new_events = await run_in_threadpool(look)
        while True:
            for event in new_events:
                after = event.seq
                yield _sse(event)
            if len(new_events) < AT_ONCE:
                if has_ended(row) or service.stopping.is_set():
                    job_json = job_of(row).model_dump_json(exclude_none=True)
                    yield ServerSentEvent(event="job", raw_data=job_json)
                    return
                await follower.change(LOOK_S)
            row, new_events = await follower.read(("events", after), look)


def _look(service: State, tenant: Tenant, job: str, after: int) -> tuple[Row[Any], list[Row[Any]]]:
    row = service.jobs.get(tenant, job)  # before the events, so that none of an ended job is missed
    with service.database.reading() as connection:
        return row, list(job_events.after(connection, job, after, AT_ONCE))


def _sse(event: Row[Any]) -> ServerSentEvent:
    (kind,) = {"state", "progress", "plan", "solution"} & set(event.body)
    body = {"at": time_of(event.at), "attempt": event.attempt, **event.body}
    return ServerSentEvent(
        event=kind, id=str(event.seq), raw_data=json.dumps(body, separators=(",", ":"))
    )
