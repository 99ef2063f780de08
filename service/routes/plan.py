"""POST /v1/plan: the front door."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field
from sqlalchemy import Row

from meshwright.schema import Budget, Calibration, Graph, Pin, Plan, Setup, Topology
from meshwright.schema.model import Model
from meshwright.schema.request import MAX_PINS
from service import documents, immutable
from service.body import Body, read_body
from service.planning import Asked, check, understand
from service.resources import Job, job_of
from service.routes.jobs import wait_for_end
from service.state import Service, State

router = APIRouter(tags=["plan"])
WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*(\d{1,6})\b")


class PlanRequest(Model):
    """What is asked: documents inline or by id, a topology also by the name of a preset."""

    graph: Graph | str
    topology: Topology | str
    setup: Setup = Setup()
    calibration: Calibration | None = None
    pins: tuple[Pin, ...] = Field(default=(), max_length=MAX_PINS)
    solver: str = "dynamic_programming"
    budget: Budget = Budget()


ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": Plan | Job, "description": "The plan, or the job that found that none fits"},
    202: {"model": Job, "description": "The search is queued or runs; Location names its job"},
}
BODY = {"requestBody": {"required": True, "content": {"application/json": {}}}}


@router.post("/plan", responses=ANSWERS, openapi_extra=BODY, include_in_schema=False)
@router.post("/v1/plan", responses=ANSWERS, openapi_extra=BODY, summary="Ask for a plan")
async def plan(
    request: Request,
    service: Service,
    body: Annotated[Body, Depends(read_body)],
    fresh: Annotated[bool, Query(description="Search again")] = False,
    prefer: Annotated[str | None, Header(description="wait=N: answer after N seconds")] = None,
) -> Response:
    """Find a stored plan or queue a search for one."""
    row = await run_in_threadpool(_submit, service, body, fresh=fresh)
    wanted = WAIT.search(prefer or "")
    if wanted:
        row = await wait_for_end(request, service, row.id, float(wanted.group(1)))
    return await run_in_threadpool(_answer, service, row)


def _submit(service: State, body: Body, *, fresh: bool) -> Row[Any]:
    asked = understand(body.json(), service.settings.planner)
    with service.database.reading() as connection:
        found = None if fresh else service.jobs.find(connection, asked.request)
        if found is not None:
            return found
        check(connection, asked)
    with service.database.writing() as connection:
        found = None if fresh else service.jobs.find(connection, asked.request)
        if found is not None:
            return found
        job = _store(service, connection, asked)
    service.wake()
    return service.jobs.get(job)


def _store(service: State, connection: Any, asked: Asked) -> str:
    for document in asked.documents:
        documents.put(connection, document, now=service.database.now)
    return service.jobs.submit(
        connection,
        request=asked.request,
        graph=asked.graph,
        topology=asked.topology,
        asked=asked.body,
    )


def _answer(service: State, row: Row[Any]) -> Response:
    location = f"/v1/jobs/{row.id}"
    if row.plan is not None:
        with service.database.reading() as connection:
            body = documents.read(connection, "plan", row.plan)
        where = {"Content-Location": f"/v1/plans/{row.plan}", "Location": location}
        return immutable.document(row.plan, body, **where)
    return Response(
        job_of(row).model_dump_json(exclude_none=True),
        status_code=202 if row.state in ("queued", "running") else 200,
        media_type="application/json",
        headers={"Location": location, "Cache-Control": "no-store"},
    )
