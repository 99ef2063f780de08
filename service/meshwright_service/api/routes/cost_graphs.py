"""Cost graphs of other compilers and their solutions: solve, list, read and delete."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from meshwright.schema.cost_graph import CostGraphFile, CostGraphSolution
from meshwright_service.api import etags
from meshwright_service.api.cost_graph_submission import CostGraphSubmission
from meshwright_service.api.request_body import ArrivedCostGraph
from meshwright_service.api.resources import (
    CostGraphList,
    DocumentEntry,
    JobResource,
    entry_of,
    job_of,
)
from meshwright_service.api.routes.documents import IN_USE, entries, read_document
from meshwright_service.api.routes.jobs import preferred_wait_s, wait_for
from meshwright_service.api.state import Service, State
from meshwright_service.api.submission import Submitted
from meshwright_service.auth.principals import Admin, Planner, Reader
from meshwright_service.common.tenant import Tenant
from meshwright_service.jobs.acceptance import OPEN, Acceptance, read_acceptance
from meshwright_service.jobs.idempotency import Given, Once
from meshwright_service.jobs.jobs import has_ended
from meshwright_service.store import deletion, documents
from meshwright_service.store.pagination import Paging

router = APIRouter(tags=["cost graphs"])
SOLVED: dict[int | str, dict[str, Any]] = {
    200: {
        "model": CostGraphSolution | JobResource,
        "description": "The solution, or the job that ended without one",
    },
    202: {
        "model": JobResource,
        "description": "The search is queued or runs; Location names its job",
    },
}
GRAPH: dict[int | str, dict[str, Any]] = {200: {"model": CostGraphFile}}
SOLUTION: dict[int | str, dict[str, Any]] = {200: {"model": CostGraphSolution}}


@router.post("/v1/cost-graphs:solve", responses=SOLVED, summary="Solve a cost graph")
async def solve(
    request: Request,
    service: Service,
    by: Planner,
    raw: ArrivedCostGraph,
    accepted: Annotated[Acceptance, Depends(read_acceptance)],
    fresh: Annotated[bool, Query(description="Search again and ignore stored answers")] = False,
    prefer: Annotated[str | None, Header(description="wait=N: answer after N seconds")] = None,
    idempotency_key: Given = None,
) -> Response:
    """Choose a strategy for every node of a cost graph, at the least cost within its usage limit.

    The answer is a stored solution or a job that searches. An infeasible cost graph has a solution
    with that status.
    """
    acceptance = None if fresh else accepted
    once = Once.of(idempotency_key, "solve", acceptance, raw.encoding, body=raw.data)
    submission = CostGraphSubmission(service, by, acceptance, once)
    async with raw.reading(request) as body:
        submitted = await run_in_threadpool(submission.of_body, body)
        del body
    raw.release()  # a wait may be long
    wait_s = preferred_wait_s(prefer)
    if wait_s is not None and not submitted.is_answered:
        job = submitted.job.id
        row = await wait_for(request, service, by.tenant, job, wait_s, has_ended)
        submitted = Submitted(row)
    return await run_in_threadpool(_response, request, service, by.tenant, submitted)


@router.get("/v1/cost-graphs", response_model_exclude_none=True, summary="List cost graphs")
def list_cost_graphs(service: Service, by: Reader, page: Paging) -> CostGraphList:
    """Submitted cost graphs, newest first."""
    listed = entries(service, by.tenant, CostGraphFile.prefix, page)
    return CostGraphList(cost_graphs=listed.items, next_page_token=listed.next_token)


@router.get("/v1/cost-graphs/{cost_graph}", responses=GRAPH, summary="Read a cost graph")
def get_cost_graph(request: Request, service: Service, by: Reader, cost_graph: str) -> Response:
    """A cost graph in canonical form, without the options of its request."""
    return read_document(request, service, by.tenant, CostGraphFile.prefix, cost_graph)


@router.get("/v1/cost-graphs/{cost_graph}/summary", summary="Summarize a cost graph")
def get_summary(service: Service, by: Reader, cost_graph: str) -> DocumentEntry:
    """The counts and the usage limit of a cost graph."""
    with service.database.reading() as connection:
        return entry_of(documents.entry(connection, by.tenant, CostGraphFile.prefix, cost_graph))


@router.delete(
    "/v1/cost-graphs/{cost_graph}", status_code=204, responses=IN_USE,
    summary="Delete a cost graph",
)  # fmt: skip
def delete_cost_graph(service: Service, by: Admin, cost_graph: str) -> Response:
    """Delete a cost graph, its jobs and their solutions. 409 while an open job needs it."""
    with service.database.writing() as connection:
        deletion.delete_cost_graph(connection, by.tenant, cost_graph, service.database.now)
    return Response(status_code=204)


@router.get("/v1/solutions/{solution}", responses=SOLUTION, summary="Read a solution")
def get_solution(request: Request, service: Service, by: Reader, solution: str) -> Response:
    """The choice, its cost, the lower bound and the status."""
    return read_document(request, service, by.tenant, CostGraphSolution.prefix, solution)


@router.get("/v1/solutions/{solution}/summary", summary="Summarize a solution")
def get_solution_summary(service: Service, by: Reader, solution: str) -> DocumentEntry:
    """The status, the cost and the lower bound of a solution, without the choice."""
    with service.database.reading() as connection:
        return entry_of(documents.entry(connection, by.tenant, CostGraphSolution.prefix, solution))


@router.delete(
    "/v1/solutions/{solution}", status_code=204, responses=IN_USE, summary="Delete a solution"
)
def delete_solution(service: Service, by: Admin, solution: str) -> Response:
    """Delete a solution and its jobs; the cost graph stays."""
    with service.database.writing() as connection:
        deletion.delete_solution(connection, by.tenant, solution, service.database.now)
    return Response(status_code=204)


def _response(request: Request, service: State, tenant: Tenant, submitted: Submitted) -> Response:
    job = submitted.job
    location = f"/v1/jobs/{job.id}"
    if job.solution is not None and submitted.is_answered:
        headers = {"Content-Location": f"/v1/solutions/{job.solution}", "Location": location}
        with service.database.reading() as connection:
            kind = CostGraphSolution.prefix
            packed = documents.read_packed(connection, tenant, kind, job.solution)
        return etags.stored_document(request, job.solution, packed, **headers)
    return Response(
        job_of(job).model_dump_json(exclude_none=True),
        status_code=202 if job.state in OPEN else 200,
        media_type="application/json",
        headers={"Location": location, "Cache-Control": "no-store"},
    )
