"""POST /v1/plan: from a request to a stored plan."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.one_stage import ONE_STAGE_BODY
from tests.service.conftest import Serve
from tests.service.samples import GRAPH, REQUEST, TOPOLOGY, request

WAIT = {"Prefer": "wait=60"}


def test_a_request_becomes_a_job_and_the_job_a_plan(serve: Serve) -> None:
    http = serve()
    asked = http.post("/v1/plan", json=REQUEST)
    assert asked.status_code == 202
    job = http.get(asked.headers["location"], params={"wait": 60}).json()
    assert job["state"] == "succeeded"
    assert job["outcome"] == "optimal"
    plan = http.get(f"/v1/plans/{job['plan']}").json()
    assert plan["cost"]["step_ns"] == 2  # tiny: one nanosecond an op
    assert plan["graph"] == job["graph"]


def test_prefer_wait_answers_with_the_plan(serve: Serve) -> None:
    http = serve()
    answer = http.post("/v1/plan", json=REQUEST, headers=WAIT)
    assert answer.status_code == 200
    assert answer.headers["content-location"] == f"/v1/plans/{_shelf(http)[0]['id']}"
    assert answer.json()["stages"]


def test_plan_without_v1_is_the_same_handler(serve: Serve) -> None:
    assert serve().post("/plan", json=REQUEST, headers=WAIT).status_code == 200


def test_an_answered_request_is_not_searched_again(serve: Serve) -> None:
    http = serve()
    first = http.post("/v1/plan", json=REQUEST, headers=WAIT)
    again = http.post("/v1/plan", json=REQUEST)
    assert again.status_code == 200
    assert again.json() == first.json()
    assert len(http.get("/v1/jobs").json()["jobs"]) == 1


def test_a_request_under_way_is_not_queued_twice(serve: Serve) -> None:
    http = serve("endless")
    first = http.post("/v1/plan", json=REQUEST)
    again = http.post("/v1/plan", json=REQUEST)
    assert again.status_code == 202
    assert again.headers["location"] == first.headers["location"]


def test_fresh_searches_again(serve: Serve) -> None:
    http = serve()
    http.post("/v1/plan", json=REQUEST, headers=WAIT)
    http.post("/v1/plan?fresh=true", json=REQUEST, headers=WAIT)
    assert len(http.get("/v1/jobs").json()["jobs"]) == 2
    assert len(_shelf(http)) == 1  # the same plan has the same id


def test_documents_may_be_named_by_id(serve: Serve) -> None:
    http = serve()
    graph = http.post("/v1/graphs", json=GRAPH).json()["id"]
    topology = http.post("/v1/topologies", json=TOPOLOGY).json()["id"]
    by_id = {"graph": graph, "topology": topology, **ONE_STAGE_BODY}
    plan = http.post("/v1/plan", json=by_id, headers=WAIT).json()
    assert (plan["graph"], plan["topology"]) == (graph, topology)
    assert http.post("/v1/plan", json=REQUEST).status_code == 200  # the same request


def test_a_topology_may_be_a_preset(serve: Serve) -> None:
    http = serve()
    http.post("/v1/plan", json=request(topology="h100-2x8"), headers=WAIT)
    assert http.get("/v1/topologies").json()["topologies"][0]["name"] == "h100-2x8"


def test_a_strategy_that_is_stated_is_another_request(serve: Serve) -> None:
    http = serve()
    http.post("/v1/plan", json=REQUEST, headers=WAIT)
    asked = http.post("/v1/plan", json=request(degrees={"dp": 2, "tp": 4}))
    assert asked.status_code == 202
    refused = http.post("/v1/plan", json=request(degrees={"tp": 3}))
    assert refused.status_code == 422
    assert "tp 3 does not divide the 8 devices" in refused.json()["detail"]


def test_other_terms_are_another_request_and_defaults_are_none(serve: Serve) -> None:
    http = serve()
    other = [
        {"solver": "semi_auto"}, {"solver": "semi_auto", "rest": "propagate"}, {"module": "l*"},
        {"constraints": {"fully_use_devices": True}},
    ]  # fmt: skip
    for terms in ({}, *other):
        assert http.post("/v1/plan", json=request(**terms), headers=WAIT).status_code == 200
    same = {"rest": "data_parallel", "constraints": {"slice_alignment": 1}}
    assert http.post("/v1/plan", json=request(**same)).status_code == 200
    assert len(http.get("/v1/jobs").json()["jobs"]) == 1 + len(other)


def test_another_setup_is_another_request(serve: Serve) -> None:
    http = serve()
    for setup in ({}, {"global_batch": 16}, {"phase": "inference"}):
        http.post("/v1/plan", json=request(setup=setup), headers=WAIT)
    assert len(_shelf(http)) == 3


def test_infeasible_is_an_outcome_not_an_error(serve: Serve) -> None:
    http = serve("infeasible")
    answer = http.post("/v1/plan", json=REQUEST, headers=WAIT)
    assert answer.status_code == 200
    job = answer.json()
    assert (job["state"], job["outcome"]) == ("succeeded", "infeasible")
    assert job["infeasible"]["needed_bytes"] == 2048
    assert _shelf(http) == []


def test_what_the_planner_finds_wrong_is_the_problem_of_the_job(serve: Serve) -> None:
    job = serve("refusing").post("/v1/plan", json=REQUEST, headers=WAIT).json()
    assert job["state"] == "failed"
    assert job["problem"]["type"] == "urn:meshwright:problem:invalid-request"
    assert job["problem"]["errors"][0]["pointer"] == "/pins/0"
    assert job["problem"]["instance"] == f"/v1/jobs/{job['id']}"


def test_a_bug_of_the_planner_fails_the_job_at_once(serve: Serve) -> None:
    job = serve("broken").post("/v1/plan", json=REQUEST, headers=WAIT).json()
    assert (job["state"], job["attempt"]) == ("failed", 1)
    assert "a bug in two layers" in job["problem"]["detail"]


def test_a_failed_request_is_searched_again_when_asked_again(serve: Serve) -> None:
    http = serve("refusing")
    http.post("/v1/plan", json=REQUEST, headers=WAIT)
    assert http.post("/v1/plan", json=REQUEST).status_code == 202


@pytest.mark.parametrize("prefer", ["wait=0", "respond-async", "wait=x", "await=5"])
def test_without_a_wait_the_job_comes_back_at_once(serve: Serve, prefer: str) -> None:
    http = serve("endless")
    assert http.post("/v1/plan", json=REQUEST, headers={"Prefer": prefer}).status_code == 202


def _shelf(http: TestClient) -> list[dict[str, object]]:
    shelf: list[dict[str, object]] = http.get("/v1/plans").json()["plans"]
    return shelf
