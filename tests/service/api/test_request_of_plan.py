"""What a plan was asked by, and lists of jobs by what they are of."""

from __future__ import annotations

import pytest

from meshwright.schema import Setup, Topology
from meshwright.schema.request_options import Budget
from tests.one_stage import ONE_STAGE_BODY
from tests.service.conftest import Serve
from tests.service.keyed import key_of
from tests.service.samples import GRAPH, TOPOLOGY, graph, request
from tests.service.shelved import store

WAIT = {"Prefer": "wait=60"}
ASKED = request(
    setup=Setup(global_batch=16).to_dict(),
    solver="exact",
    budget={"seconds": 40.0},
    pins=[{"op": "layers.0*", "strategy": {"m": ["gpu"]}}],
)


def test_what_a_plan_was_asked_by_asks_for_it_again(serve: Serve) -> None:
    http = serve()
    made = http.post("/v1/plan", json=ASKED, headers=WAIT)
    assert made.status_code == 200, made.text
    where = made.headers["content-location"]
    asked = http.get(f"{where}/request").json()
    assert asked["graph"] == made.json()["graph"]
    assert asked["setup"] == ASKED["setup"]
    assert asked["budget"] == {"seconds": 40.0}
    again = http.post("/v1/plan", json=asked)
    assert (again.status_code, again.headers["content-location"]) == (200, where)
    assert len(http.get("/v1/jobs").json()["jobs"]) == 1
    tag = {"If-None-Match": http.get(f"{where}/request").headers["etag"]}
    assert http.get(f"{where}/request", headers=tag).status_code == 304


def test_without_a_job_it_is_what_the_plan_says(serve: Serve) -> None:
    http = serve(workers=0)
    plan = store(http, [2, 4], solver="exact", budget=Budget(max_axes=2, seconds=60))
    assert http.get(f"/v1/plans/{plan.id}/request").json() == {
        "graph": plan.graph,
        "topology": plan.topology,
        "setup": {},
        "calibration": plan.calibration,
        "solver": "exact",
        "budget": {"max_axes": 2},
        **ONE_STAGE_BODY,
    }


def test_a_job_without_a_plan_says_what_it_was_asked_by(serve: Serve) -> None:
    http = serve("infeasible")
    made = http.post("/v1/plan", json=ASKED, headers=WAIT).json()
    asked = http.get(f"/v1/jobs/{made['id']}/request").json()
    assert (asked["graph"], asked["setup"]) == (made["graph"], ASKED["setup"])
    assert http.post("/v1/plan", json=asked).json()["id"] == made["id"]
    assert http.get("/v1/jobs/job_0/request").status_code == 404


def test_what_nobody_asked_for_has_no_request(serve: Serve) -> None:
    assert serve(workers=0).get("/v1/plans/plan_0/request").status_code == 404


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ({}, 2),
        ({"state": "queued"}, 1),
        ({"state": ["queued", "cancelled"]}, 2),
        ({"state": ["running", "failed"]}, 0),
        ({"outcome": "infeasible"}, 0),
        ({"model": "TWO*"}, 1),
        ({"model": "two"}, 0),
        ({"topology": Topology.from_dict(TOPOLOGY).id}, 2),
        ({"topology": "topo_0"}, 0),
    ],
)
def test_jobs_are_filtered_by_what_they_are_of(
    serve: Serve, given: dict[str, str | list[str]], count: int
) -> None:
    http = serve(workers=0)
    http.post("/v1/plan", json=request())
    other = http.post("/v1/plan", json=request(graph=graph(name="other"))).json()["id"]
    http.post(f"/v1/jobs/{other}/cancel")
    answer = http.get("/v1/jobs", params=given)
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["jobs"]) == count


def test_jobs_and_plans_say_the_names_of_what_they_are_of(serve: Serve) -> None:
    http = serve()
    key = key_of(http, "admin")
    assert http.post("/v1/plan", json=request(), headers={**key, **WAIT}).status_code == 200
    (job,) = http.get("/v1/jobs", headers=key).json()["jobs"]
    (own,) = http.get("/v1/keys", headers=key).json()["keys"]
    assert (job["graph_name"], job["topology_name"]) == (GRAPH["name"], TOPOLOGY["name"])
    assert (job["key"], job["key_name"]) == (own["id"], own["name"])
    assert http.get(f"/v1/jobs/{job['id']}", headers=key).json() == job
    (entry,) = http.get("/v1/plans", headers=key).json()["plans"]
    assert entry["topology_name"] == TOPOLOGY["name"]
