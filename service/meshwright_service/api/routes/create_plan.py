"""POST /v1/plan: request a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field, StrictBool

from meshwright.schema import Calibration, Graph, Plan, Setup, Topology, Wishes
from meshwright.schema.migration import DEFAULT_STEPS
from meshwright.schema.model import Whole
from meshwright.schema.sizes import MAX_SIZE
from meshwright_service.api import etags
from meshwright_service.api.plan_submission import Submission
from meshwright_service.api.request_body import ArrivedBody, RawBody
from meshwright_service.api.resources import JobResource, job_of
from meshwright_service.api.routes.jobs import preferred_wait_s, wait_for
from meshwright_service.api.state import Service, State
from meshwright_service.api.submission import Submitted
from meshwright_service.auth.principals import Planner
from meshwright_service.common.tenant import Tenant
from meshwright_service.jobs.acceptance import OPEN, Acceptance, read_acceptance
from meshwright_service.jobs.idempotency import Given, Once
from meshwright_service.store import certificates, documents

router = APIRouter(tags=["plan"])


class PlanRequest(Wishes):
    """A planning request: documents inline or by id, a topology also by the name of a preset.

    from_plan: the id of the plan of a running job, whose migration the objective includes. steps:
    the number of remaining steps of that job.
    """

    graph: Graph | str
    topology: Topology | str
    setup: Setup = Setup()
    calibration: Calibration | str | None = None
    from_plan: str | None = None
    steps: Whole = Field(default=DEFAULT_STEPS, ge=1, le=MAX_SIZE)
    verify: StrictBool = False


ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "model": Plan | JobResource,
        "description": "The plan, or the job that ended without one",
    },
    202: {
        "model": JobResource,
        "description": "The search is queued or runs; Location names its job",
    },
}
BODY = {"requestBody": {"required": True, "content": {"application/json": {}}}}


@router.post("/plan", responses=ANSWERS, openapi_extra=BODY, include_in_schema=False)
@router.post("/v1/plan", responses=ANSWERS, openapi_extra=BODY, summary="Request a plan")
async def plan(
    request: Request,
    service: Service,
    by: Planner,
    raw: ArrivedBody,
    accepted: Annotated[Acceptance, Depends(read_acceptance)],
    fresh: Annotated[bool, Query(description="Search again and ignore stored answers")] = False,
    prefer: Annotated[str | None, Header(description="wait=N: answer after N seconds")] = None,
    idempotency_key: Given = None,
) -> Response:
    """Return a stored plan or queue a search; with `verify`, execute the plan too."""
    wait_s = preferred_wait_s(prefer)
    acceptance = None if fresh else accepted
    once = Once.of(idempotency_key, "plan", acceptance, raw.encoding, body=raw.data)
    submission = Submission(service, by, acceptance, once)
    known = None
    if submission.may_be_known:
        known = await run_in_threadpool(_cached_answer, request, submission, raw)
    if known is None:
        async with raw.reading(request) as body:
            submitted = await run_in_threadpool(submission.of_body, body)
    else:
        submitted, response = known
        if wait_s is None or submitted.is_answered:
            return response
    raw.release()  # a wait may be long
    if wait_s is not None:
        job = await wait_for(
            request,
            service,
            by.tenant,
            submitted.job.id,
            wait_s,
            lambda job: replace(submitted, job=job).is_answered,
        )
        submitted = replace(submitted, job=job)
    return await run_in_threadpool(_response, request, service, by.tenant, submitted)


def _cached_answer(
    request: Request, submission: Submission, raw: RawBody
) -> tuple[Submitted, Response] | None:
    """The job of a body in the request cache, and the response, in one thread switch."""
    submitted = submission.of_known_body(raw.encoding, raw.data)
    if submitted is None:
        return None
    return submitted, _response(request, submission.service, submission.by.tenant, submitted)


def _response(request: Request, service: State, tenant: Tenant, submitted: Submitted) -> Response:
    job = submitted.job
    location = f"/v1/jobs/{job.id}"
    if job.plan is not None and submitted.is_answered:
        plan = f"/v1/plans/{job.plan}"
        headers = {"Content-Location": plan, "Location": location}
        with service.database.reading() as connection:
            is_certified = certificates.exists(connection, tenant, job.plan)
            packed = documents.read_packed(connection, tenant, "plan", job.plan)
        if is_certified:
            headers["Link"] = f'<{plan}/certificate>; rel="describedby"'
        if is_certified or not submitted.verify:
            return etags.stored_document(request, job.plan, packed, **headers)
    return Response(
        job_of(job).model_dump_json(exclude_none=True),
        status_code=202 if job.state in OPEN else 200,
        media_type="application/json",
        headers={"Location": location, "Cache-Control": "no-store"},
    )
