"""Redistributions over HTTP: those of a plan, and what moves between two."""

from __future__ import annotations

import httpx
import pytest
from starlette.testclient import TestClient

from meshwright.schema import NotFound, Plan
from meshwright.schema.transfer import DeviceTransfer, Transfer
from tests.service.conftest import Serve
from tests.service.shelved import store
from tests.service.transport import client_of


@pytest.fixture
def service(serve: Serve) -> TestClient:
    return serve(workers=0)


def between(service: TestClient, one: Plan, other: Plan, **more: str | int) -> httpx.Response:
    found: httpx.Response = service.get(
        "/v1/redistributions", params={"from_plan": one.id, "to_plan": other.id, **more}
    )
    return found


def test_a_plan_has_its_collectives(service: TestClient) -> None:
    found = store(service, [2, 4])
    answer = service.get(f"/v1/plans/{found.id}/redistributions")
    assert answer.status_code == 200
    lines = answer.json()["redistributions"]
    assert [line["tensor"] for line in lines] == [
        move.tensor for stage in found.stages for move in stage.redistributions
    ]
    assert all(line["stage"] == 0 for line in lines)
    again = service.get(
        f"/v1/plans/{found.id}/redistributions", headers={"If-None-Match": answer.headers["etag"]}
    )
    assert again.status_code == 304
    assert service.get("/v1/plans/plan_0/redistributions").status_code == 404


def test_a_transfer_between_two_plans(service: TestClient) -> None:
    one, other = store(service, [2, 4]), store(service, [1, 4])
    answer = between(service, one, other, first=8)
    assert answer.status_code == 200
    moved = Transfer.from_dict(answer.json())
    assert (moved.from_plan, moved.to_plan) == (one.id, other.id)
    assert moved.kept_bytes == 0
    assert moved.moved_bytes == moved.needed_bytes > 0
    etag = {"If-None-Match": answer.headers["etag"]}
    query = {"from_plan": one.id, "to_plan": other.id, "first": 8}
    assert service.get("/v1/redistributions", params=query, headers=etag).status_code == 304
    does = DeviceTransfer.from_dict(between(service, one, other, first=8, device=9).json())
    assert does.device == 9
    assert does.receives


def test_what_cannot_be_moved_is_a_problem(service: TestClient) -> None:
    one, other = store(service, [2, 4]), store(service, [2, 2])
    for more, status, words in (
        ({}, 422, "their nodes differ"),
        ({"cluster": "h100-1x2"}, 422, "has 2"),
        ({"cluster": "nonsense"}, 422, "unknown topology preset"),
        ({"cluster": "topo_0"}, 404, "topo_0"),
        ({"cluster": "h100-4x4", "device": 12}, 404, "device 12 is not part"),
        ({"state": "gradient"}, 422, "state"),
        ({"first": -1}, 422, "first"),
    ):
        answer = between(service, one, other, **more)
        assert answer.status_code == status, more
        assert answer.headers["content-type"] == "application/problem+json"
        assert words in answer.text
    missing = service.get("/v1/redistributions", params={"from_plan": "plan_0", "to_plan": one.id})
    assert missing.status_code == 404


def test_the_client_asks_for_transfers(service: TestClient) -> None:
    one, other = store(service, [2, 4]), store(service, [1, 4])
    client = client_of(service)
    made = client.transfer(one.id, other.id, state="value")
    assert isinstance(made, Transfer)
    assert {line.state for line in made.tensors} == {"value"}
    does = client.transfer(one.id, other.id, first=4, device=5, cluster="h100-2x4")
    assert isinstance(does, DeviceTransfer)
    assert len(list(client.redistributions(one.id))) == len(one.stages[0].redistributions)
    with pytest.raises(NotFound):
        client.transfer("plan_0", other.id)
