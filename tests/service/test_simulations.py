"""Simulations over HTTP: numbers and traces of a stored plan."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from meshwright.schema import NotFound
from meshwright.schema.simulation import Simulation
from tests.service.conftest import Serve
from tests.service.shelved import store
from tests.service.transport import client_of


@pytest.fixture
def service(serve: Serve) -> TestClient:
    return serve(workers=0)


def test_a_plan_is_simulated_when_somebody_asks(service: TestClient) -> None:
    plan = store(service, [2, 4])
    answer = service.get(f"/v1/plans/{plan.id}/simulation")
    assert answer.status_code == 200
    made = Simulation.from_dict(answer.json())
    assert made.plan == plan.id
    assert made.predicted_ns == plan.cost.step_ns
    tag = {"If-None-Match": answer.headers["etag"]}
    assert service.get(f"/v1/plans/{plan.id}/simulation", headers=tag).status_code == 304
    assert service.get("/v1/plans/plan_0/simulation").status_code == 404


def test_its_trace_comes_as_json(service: TestClient) -> None:
    plan = store(service, [2, 4])
    answer = service.get(f"/v1/plans/{plan.id}/timeline")
    assert answer.status_code == 200
    assert answer.json()["otherData"]["plan"] == plan.id
    assert service.get("/v1/plans/plan_0/timeline").status_code == 404


def test_the_client_asks_for_both(service: TestClient) -> None:
    plan = store(service, [2, 4])
    client = client_of(service)
    assert client.simulation(plan.id).step_ns > 0
    assert client.timeline(plan.id)["traceEvents"]
    with pytest.raises(NotFound):
        client.simulation("plan_0")
