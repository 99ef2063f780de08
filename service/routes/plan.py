"""POST /v1/plan: the front door."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field, StrictBool
from sqlalchemy import Connection, Row

from meshwright.schema import (
    Calibration,
    Graph,
    Plan,
    Setup,
    TooLarge,
    Topology,
    Wishes,
)
from meshwright.schema.model import Whole
from meshwright.schema.move import DEFAULT_STEPS
from meshwright.schema.sizes import MAX_SIZE
from service import certificates, documents, immutable
from service.body import Body, read_body
from service.idempotency import Given, Once
from service.jobs import has_ended
from service.planning import Asked, check, decided, understand
from service.principals import Planner, Principal, Tenant
from service.references import referring
from service.resources import Job, job_of
from service.routes.jobs import wait_for
from service.state import Service, State

router = APIRouter(tags=["plan"])
OPEN = ("queued", "running")
WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*(\d{1,6})\b")


class PlanRequest(Wishes):
    """What is asked: documents inline or by id, a topology also by the name of a preset.

    from_plan, steps: of a job that runs, by the id of its plan, and so many steps are left: moving
    from there counts.
    """

    graph: Graph | str
    topology: Topology | str
    setup: Setup = Setup()
    calibration: Calibration | str | None = None
    from_plan: str | None = None
    steps: Whole = Field(default=DEFAULT_STEPS, ge=1, le=MAX_SIZE)
    verify: StrictBool = False


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
    by: Planner,
    body: Annotated[Body, Depends(read_body)],
    fresh: Annotated[bool, Query(description="Search again")] = False,
    prefer: Annotated[str | None, Header(description="wait=N: answer after N seconds")] = None,
    idempotency_key: Given = None,
) -> Response:
    """Find a stored plan or queue a search for one; with `verify`, execute it too."""
    wanted = WAIT.search(prefer or "")
    once = Once.of(idempotency_key, "plan", fresh, body.encoding, body=body.data)
    if not wanted:
        return await run_in_threadpool(_at_once, request, service, by, body, fresh=fresh, once=once)
    row, verify = await run_in_threadpool(_submit, service, by, body, fresh=fresh, once=once)
    row = await wait_for(
        request,
        service,
        by.tenant,
        row.id,
        float(wanted.group(1)),
        lambda job: _is_answered(job, verify=verify),
    )
    return await run_in_threadpool(_answer, request, service, by.tenant, row, verify=verify)


def _at_once(
    request: Request, service: State, by: Principal, body: Body, *, fresh: bool, once: Once | None
) -> Response:
    row, verify = _submit(service, by, body, fresh=fresh, once=once)
    return _answer(request, service, by.tenant, row, verify=verify)


def _submit(
    service: State, by: Principal, body: Body, *, fresh: bool, once: Once | None
) -> tuple[Row[Any], bool]:
    known = None if fresh or once else service.remembered.request(body.encoding, body.data)
    planner = service.settings.planner
    if known is not None:
        with service.database.reading() as connection:
            asked = decided(connection, by.tenant, known, planner)
            found = service.jobs.find(connection, by.tenant, asked.request)
        if found is not None:
            _count(service, found)
            return found, False
    asked = understand(body.json(), planner)
    for graph in [part for part in asked.documents if isinstance(part, Graph)]:
        try:
            body.limits.check_graph(graph)
        except TooLarge as error:
            raise error.within("/graph") from None
    if not asked.verify:
        service.remembered.keep(body.encoding, body.data, asked)
    with service.database.reading() as connection:
        asked = decided(connection, by.tenant, asked, planner)
        again = once and service.idempotency.find(connection, by.tenant, once)
        found = None if fresh else service.jobs.find(connection, by.tenant, asked.request)
        if found is not None and not asked.verify and not once:
            _count(service, found)
            return found, False
        if found is None and not again:
            check(connection, by.tenant, asked)
    if again:
        return service.jobs.get(by.tenant, again), asked.verify
    with service.database.writing() as connection:
        referring(connection)
        again = once and service.idempotency.alone(connection, by.tenant, once)
        service.database.alone(connection, f"{by.tenant} {asked.request}")
        found = None if fresh else service.jobs.find(connection, by.tenant, asked.request)
        job: str | None
        if again:
            job = again
        elif found is None:
            job = _store(service, connection, by, asked)
        elif asked.verify:
            job = service.jobs.verify(connection, by, found)
        else:
            job = None
        if once and not again:
            service.idempotency.keep(connection, by.tenant, once, job or str(found and found.id))
    _count(service, found)
    if job is None:
        assert found is not None
        return found, False
    service.wake()
    return service.jobs.get(by.tenant, job), asked.verify


def _count(service: State, found: Row[Any] | None) -> None:
    """In the metrics: what answers, a plan that is there, a job under way, or a new one."""
    answer = "queued" if found is None else "joined" if found.state in OPEN else "stored"
    service.metrics.plan_requests.labels(answer).inc()


def _store(service: State, connection: Connection, by: Principal, asked: Asked) -> str:
    for document in asked.documents:
        documents.put(connection, by.tenant, document, now=service.database.now)
    return service.jobs.submit(
        connection,
        by,
        request=asked.request,
        graph=asked.graph,
        topology=asked.topology,
        asked=asked.body,
        verify=asked.verify,
    )


def _is_answered(job: Row[Any], *, verify: bool) -> bool:
    """Whether a job has come to its end, or to its plan where no certificate is asked for."""
    return has_ended(job) or (job.plan is not None and not verify)


def _answer(
    request: Request, service: State, tenant: Tenant, row: Row[Any], *, verify: bool
) -> Response:
    location = f"/v1/jobs/{row.id}"
    if row.plan is not None and _is_answered(row, verify=verify):
        plan = f"/v1/plans/{row.plan}"
        where = {"Content-Location": plan, "Location": location}
        with service.database.reading() as connection:
            is_certified = certificates.exists(connection, tenant, row.plan)
            packed = documents.read_packed(connection, tenant, "plan", row.plan)
        if is_certified:
            where["Link"] = f'<{plan}/certificate>; rel="describedby"'
        if is_certified or not verify:
            return immutable.stored_document(request, row.plan, packed, **where)
    return Response(
        job_of(row).model_dump_json(exclude_none=True),
        status_code=202 if row.state in ("queued", "running") else 200,
        media_type="application/json",
        headers={"Location": location, "Cache-Control": "no-store"},
    )
