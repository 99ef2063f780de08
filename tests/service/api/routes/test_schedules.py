"""The schedule of a stored plan over HTTP."""

from __future__ import annotations

import pytest

from meshwright.schema import NotFound
from tests.service.conftest import Serve
from tests.service.shelved import store
from tests.service.transport import client_of


def test_a_plan_of_one_stage_has_no_ranks(serve: Serve) -> None:
    service = serve(workers=0)
    plan = store(service, [2, 4])
    answer = service.get(f"/v1/plans/{plan.id}/schedule")
    assert answer.status_code == 200
    found = answer.json()
    assert (found["plan"], found["kind"], found["ranks"]) == (plan.id, None, [])
    assert found["step_ns"] == plan.cost.step_ns
    tag = {"If-None-Match": answer.headers["etag"]}
    assert service.get(f"/v1/plans/{plan.id}/schedule", headers=tag).status_code == 304
    client = client_of(service)
    assert client.schedule(plan.id) == found
    with pytest.raises(NotFound):
        client.schedule("plan_0")


def test_memory_says_whether_the_step_is_simulated(serve: Serve) -> None:
    service = serve(workers=0)
    client = client_of(service)
    plan = store(service, [2, 4])
    before = client.memory(plan.id)
    assert not before["is_simulated"]
    (bar,) = before["ranks"]
    assert sum(bar["parts"].values()) == bar["total_bytes"]
    made = client.memory(plan.id, points=20)
    (curve,) = made["over_time"]
    assert made["is_simulated"]
    assert curve["ns"][0] == 0
    assert curve["peak"]["bytes"] == bar["total_bytes"]
    assert client.memory(plan.id)["is_simulated"]
