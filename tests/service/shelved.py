"""Real plans on the shelf of a service, as if jobs had found them."""

from __future__ import annotations

from typing import Any

from starlette.testclient import TestClient

from meshwright.schema import Graph, Plan, Setup, Topology
from meshwright_service.api.state import State
from meshwright_service.common.tenant import DEFAULT_TENANT
from meshwright_service.store import documents
from meshwright_service.store.encoded_documents import stored_plan
from meshwright_solver.planning.planner import plan
from tests.service.samples import GRAPH, TOPOLOGY
from tests.solver.requests import toy_request


def store(client: TestClient, levels: list[int], **wishes: Any) -> Plan:
    """A plan for so many nodes and devices."""
    cluster = {**TOPOLOGY, "levels": [
        {**level, "size": size} for level, size in zip(TOPOLOGY["levels"], levels, strict=True)
    ]}  # fmt: skip
    topology, graph = Topology.from_dict(cluster), Graph.from_dict(GRAPH)
    return store_for(client, graph, topology, Setup(), **wishes)


def store_for(
    client: TestClient, graph: Graph, topology: Topology, setup: Setup, **wishes: Any
) -> Plan:
    """A plan of these documents."""
    request = toy_request(graph=graph, topology=topology, setup=setup, **wishes)
    found = plan(request).plan
    assert found is not None
    assert request.calibration is not None
    service: State = client.app.state.service  # type: ignore[attr-defined]  # a FastAPI app
    with service.database.writing() as connection:
        for document in (graph, topology, setup, request.calibration):
            documents.put(connection, DEFAULT_TENANT, document, now=service.database.now)
    store_plan(client, found)
    return found


def store_plan(client: TestClient, plan: Plan) -> None:
    """This plan, whose other documents are stored."""
    service: State = client.app.state.service  # type: ignore[attr-defined]  # a FastAPI app
    with service.database.writing() as connection:
        documents.put_plan(connection, DEFAULT_TENANT, stored_plan(plan), now=service.database.now)
