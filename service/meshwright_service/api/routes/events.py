"""What happens to a job, as server-sent events."""

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
LOOK_S = 10.0  # chosen: a look without a change, whatever was missed
AT_ONCE = 500  # events that are read in one go; chosen
STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/event-stream": {
                "example": "event: progress\n"
                'data: {"at":"2026-11-22T10:00:01Z","attempt":1,"progress":{"phase":"searching",'
                '"done":3,"total":8}}\nid: 7\n\n'
            }
        },
        "description": "Events until nothing more will come of the job; the last one is the job",
    }
}


def existing(service: Service, by: Reader, job: str) -> str:
    """The id of a job that is there: of one that is not, the answer is no stream."""
    service.jobs.get(by.tenant, job)
    return job


async def waiting(service: Service, by: Reader) -> AsyncIterator[None]:
    """One of the tenant's requests that wait, as long as the stream lasts."""
    with service.waits.one(by.tenant):
        yield


async def seen(
    last_event_id: Annotated[
        str | None, Header(description="The id of the last event that was read")
    ] = None,
) -> int:
    """The number of the last event that the caller has."""
    if not last_event_id:
        return 0
    if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 10):
        raise ParameterError(
            f"Last-Event-ID {last_event_id[:40]!r} is no id of an event; take them as they come"
        )
    return int(last_event_id)


@router.get(
    "/{job}/events", response_class=EventSourceResponse, responses=STREAM,
    summary="Follow a job",
)  # fmt: skip
async def events(
    service: Service,
    by: Reader,
    job: Annotated[str, Depends(existing)],
    after: Annotated[int, Depends(seen)],
    _: Annotated[None, Depends(waiting)],
) -> AsyncIterator[ServerSentEvent]:
    """State, progress, plan and solution of a job as they change, from the first or from
    Last-Event-ID on."""

    def look() -> tuple[Row[Any], list[Row[Any]]]:
        return _look(service, by.tenant, job, after)

    with service.watch.follow(by.tenant, job) as follower:
        row, found = await run_in_threadpool(look)
        while True:
            for event in found:
                after = event.seq
                yield _told(event)
            if len(found) < AT_ONCE:
                if has_ended(row) or service.stopping.is_set():
                    said = job_of(row).model_dump_json(exclude_none=True)
                    yield ServerSentEvent(event="job", raw_data=said)
                    return
                await follower.change(LOOK_S)
            row, found = await follower.read(("events", after), look)


def _look(service: State, tenant: Tenant, job: str, after: int) -> tuple[Row[Any], list[Row[Any]]]:
    row = service.jobs.get(tenant, job)  # first: what comes behind it is seen
    with service.database.reading() as connection:
        return row, list(job_events.after(connection, job, after, AT_ONCE))


def _told(event: Row[Any]) -> ServerSentEvent:
    (kind,) = {"state", "progress", "plan", "solution"} & set(event.body)
    body = {"at": time_of(event.at), "attempt": event.attempt, **event.body}
    return ServerSentEvent(
        event=kind, id=str(event.seq), raw_data=json.dumps(body, separators=(",", ":"))
    )
