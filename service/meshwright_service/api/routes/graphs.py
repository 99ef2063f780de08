"""Graphs: upload, list, read and delete."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from meshwright.schema import Graph
from meshwright_service.api.request_body import JsonBody
from meshwright_service.api.resources import DocumentEntry, GraphList, UploadAnswer, entry_of
from meshwright_service.api.routes.documents import IN_USE, UPLOAD, entries, read_document, upload
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Admin, Planner, Reader
from meshwright_service.store import deletion, documents
from meshwright_service.store.pagination import Paging
from meshwright_solver.problem.sized_graph import check_rules

router = APIRouter(prefix="/v1/graphs", tags=["graphs"])
ONE: dict[int | str, dict[str, Any]] = {200: {"model": Graph}}


@router.post("", responses=UPLOAD, summary="Upload a graph", response_model=UploadAnswer)
def post_graph(service: Service, by: Planner, body: JsonBody) -> Response:
    """Store an operator graph: 201, or 200 if it was stored before."""
    graph = Graph.from_dict(body.json())
    body.limits.check_graph(graph)
    check_rules(graph)
    return upload(service, by, graph, "/v1/graphs")


@router.get("", response_model_exclude_none=True, summary="List graphs")
def list_graphs(service: Service, by: Reader, page: Paging) -> GraphList:
    """Graphs, newest first."""
    listed = entries(service, by.tenant, "graph", page)
    return GraphList(graphs=listed.items, next_page_token=listed.next_token)


@router.get("/{graph}", responses=ONE, summary="Read a graph")
def get_graph(request: Request, service: Service, by: Reader, graph: str) -> Response:
    """A graph in canonical form."""
    return read_document(request, service, by.tenant, "graph", graph)


@router.delete("/{graph}", status_code=204, responses=IN_USE, summary="Delete a graph")
def delete_graph(service: Service, by: Admin, graph: str) -> Response:
    """Delete a graph and its jobs without a plan. 409 while a plan or an open job needs it."""
    with service.database.writing() as connection:
        deletion.delete_input(connection, by.tenant, "graph", graph, service.database.now)
    return Response(status_code=204)


@router.get("/{graph}/summary", summary="Summarize a graph")
def get_summary(service: Service, by: Reader, graph: str) -> DocumentEntry:
    """The counts, parameters and repeated blocks of a graph."""
    with service.database.reading() as connection:
        return entry_of(documents.entry(connection, by.tenant, "graph", graph))
