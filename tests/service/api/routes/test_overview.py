"""A plan's overview over HTTP: what a page shows first."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from meshwright.client import Client
from meshwright.reports.overview import overview_of
from meshwright.schema import Graph, NotFound, Pipeline, Setup, Topology
from tests.service.conftest import Serve, server
from tests.service.samples import GRAPH, TOPOLOGY
from tests.service.shelved import store, store_for
from tests.service.transport import client_of
from tests.solver.layered import layered
from tests.solver.small_graphs import topology, toy_calibration


@pytest.fixture
def service(serve: Serve) -> TestClient:
    return serve(workers=0)


def test_it_is_the_plan_without_its_ops(service: TestClient) -> None:
    plan = store(service, [2, 4])
    answer = service.get(f"/v1/plans/{plan.id}/overview")
    assert answer.status_code == 200
    body = answer.json()
    assert body["entry"]["id"] == plan.id
    assert (body.get("certificate"), body["observations"]) == (None, [])
    found = client_of(service).overview(plan.id)
    assert found.cost == plan.cost
    assert found.search == plan.search
    assert (found.graph_name, found.topology_name) == (GRAPH["name"], TOPOLOGY["name"])
    (stage,) = found.stages
    assert (stage.devices, stage.ops) == (8, len(plan.stages[0].ops))
    assert stage.memory_bytes == plan.cost.memory_bytes.total
    again = service.get(answer.url.path, headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304
    with pytest.raises(NotFound):
        client_of(service).overview("plan_0")


def test_what_people_add_is_in_it(service: TestClient) -> None:
    plan = store(service, [2, 4])
    service.patch(f"/v1/plans/{plan.id}/labels", json={"add": ["prod"]})
    observed = {"step_ns": 2 * plan.cost.step_ns}
    assert service.post(f"/v1/plans/{plan.id}/observations", json=observed).status_code == 201
    body = service.get(f"/v1/plans/{plan.id}/overview").json()
    assert body["entry"]["labels"] == ["prod"]
    assert [own["ratio"] for own in body["observations"]] == [2.0]


def test_stages_say_what_they_do_and_take(service: TestClient) -> None:
    graph, setup = layered(4), Setup(microbatches=4)
    plan = store_for(
        service, graph, topology(2, 2), setup, pipeline=Pipeline(ranks=2, schedule="1f1b")
    )
    cluster = Topology.from_json(service.get(f"/v1/topologies/{plan.topology}").text)
    made = overview_of(plan, graph, cluster, setup, toy_calibration())
    assert [own.pipeline_rank for own in made.stages] == [0, 1]
    assert made.stages[1].first_rank == made.stages[0].devices
    assert [own.ops for own in made.stages] == [len(own.ops) for own in plan.stages]
    assert made.stages[0].received_bytes == 0 < made.stages[1].received_bytes
    uses = [own.memory_bytes for own in plan.stages]
    assert [own.memory_bytes for own in made.stages] == [own.total for own in uses if own]
    assert made.uniform.pipeline_ranks == 2
    batch = graph.symbols["batch"]
    assert made.samples_per_s == pytest.approx(batch / plan.cost.step_ns * 1e9)


def test_the_list_has_the_codes_of_its_warnings(tmp_path: Path) -> None:
    graph, cluster = Graph.from_dict(GRAPH), Topology.from_dict(TOPOLOGY)
    with server(tmp_path, planner="default") as (url, _), Client(url) as client:
        plan = client.plan(graph, cluster, setup=Setup(global_batch=4)).plan
        assert plan is not None
        codes = [warning.code for warning in client.overview(plan.id).warnings]
        assert "low-utilization" in codes
        (entry,) = httpx.get(f"{url}/v1/plans").json()["plans"]
        assert entry["warnings"] == codes
