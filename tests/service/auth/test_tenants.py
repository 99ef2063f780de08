"""Two tenants of one service, over every endpoint: neither sees, or changes, what the other has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.testclient import TestClient

from meshwright.schema.agent import Agent
from meshwright_costmodel.calibrations import default_calibration
from meshwright_service.api.middleware.authentication import OPEN
from meshwright_service.auth.principals import SCOPES, Scope
from tests.costmodel.test_fitting import samples
from tests.service.conftest import Serve, until
from tests.service.keyed import key_of
from tests.service.samples import GRAPH, REQUEST, TOPOLOGY
from tests.solver.cost_graph_files import CONTEST_EXAMPLE

AGENT = Agent(name="a", backend="gloo", hosts=("h",), device="cpu", devices=2).to_dict()
ASKED = {**REQUEST, "calibration": default_calibration().to_dict()}
ENDPOINTS: list[tuple[str, str]] = []
MORE = [("post", "/plan"), ("get", "/openapi.json")]
# what each takes; an endpoint that takes a body and is not here fails the tests
BODIES: dict[str, Any] = {
    "/plan": ASKED,
    "/v1/plan": ASKED,
    "/v1/sweeps": {"graph": GRAPH, "topologies": [TOPOLOGY], "batches": [8]},
    "/v1/sweeps/{sweep}/cancel": None,
    "/v1/cost-graphs:solve": {"problem": CONTEST_EXAMPLE, "seconds": 0.1},
    "/v1/graphs": GRAPH,
    "/v1/topologies": TOPOLOGY,
    "/v1/calibrations": default_calibration().to_dict(),
    "/v1/calibrations:measure": {},
    "/v1/samples": samples().to_dict(),
    "/v1/agents": AGENT,
    "/v1/agents/{agent}/heartbeat": {},
    "/v1/agents/{agent}/lease": None,
    "/v1/agents/{agent}/measurements/{measurement}/results": {"attempt": 1, "released": True},
    "/v1/jobs/{job}/cancel": None,
    "/v1/keys": {"name": "k", "scopes": ["read"]},
    "/v1/plans/{plan}/observations": {"step_ns": 4.0},
    "/v1/plans/{plan}/labels": {"add": ["a"]},
}
QUERIES = {
    "/v1/redistributions": "?from_plan={plan}&to_plan={plan}",
    "/v1/comparisons": "?plan={plan}&plan={plan}",
    "/v1/comparisons/table": "?plan={plan}&plan={plan}",
    "/v1/plans/{plan}/explain": "?op=*",
    "/v1/plans/{plan}/tensor-layouts": "?tensor=x",
}
# what tells nothing of anybody
SAME_FOR_ALL = {
    "/openapi.json",
    "/v1/presets",
    "/v1/presets/{preset}",
    "/v1/examples",
    "/v1/examples/{example}",
}
OPERATORS = {"/metrics"}  # no tenant's, and no admin's either


def scope_of(method: str, path: str) -> Scope:
    """What docs/reference/service.md says that a key needs."""
    if path.startswith("/v1/keys") or method == "delete":
        return "admin"
    if path in OPERATORS:
        return "metrics"
    if method == "get":
        return "read"
    return "agent" if path.startswith(("/v1/agents", "/v1/samples")) else "plan"


@dataclass(frozen=True)
class World:
    """A service in which the tenant `one` has something of everything; `ids` by path parameter."""

    http: TestClient
    ids: dict[str, str]
    one: dict[str, str]
    other: dict[str, str]

    def endpoints(self) -> list[tuple[str, str]]:
        if not ENDPOINTS:  # those of every app; the document takes a second of a core
            paths = self.http.get("/openapi.json", headers=self.one).json()["paths"]
            ENDPOINTS.extend(
                (method, path) for path, methods in paths.items() for method in methods
            )
            assert len(ENDPOINTS) > 30
        return ENDPOINTS + MORE

    def ask(self, method: str, path: str, headers: dict[str, str]) -> Any:
        body = {} if method in ("get", "delete") else {"json": BODIES[path]}
        url = (path + QUERIES.get(path, "")).format(**self.ids)
        return self.http.request(method, url, headers=headers, **body)


@pytest.fixture
def world(serve: Serve) -> World:
    http = serve(
        verifier="tests.service.verifiers:passing",
        cost_graph_solver="tests.service.cost_graph_solvers:improving",
    )
    one, other = key_of(http, "admin", tenant="one"), key_of(http, "admin", tenant="other")

    def post(path: str, body: Any = None, *, status: int = 201, **headers: str) -> Any:
        body = BODIES[path] if body is None else body
        answer = http.post(path, json=body, headers={**one, **headers})
        assert answer.status_code == status, answer.text
        return answer.json()

    asked = http.post(
        "/v1/plan", json={**ASKED, "verify": True}, headers={**one, "Prefer": "wait=60"}
    )
    assert asked.status_code == 200, asked.text
    plan = asked.headers["content-location"].rpartition("/")[2]
    found = asked.json()
    solve = "/v1/cost-graphs:solve"
    solved = http.post(solve, json=BODIES[solve], headers={**one, "Prefer": "wait=60"})
    assert solved.status_code == 200, solved.text
    solution = solved.headers["content-location"].rpartition("/")[2]
    (cost_graph,) = http.get("/v1/cost-graphs", headers=one).json()["cost_graphs"]
    measured = post("/v1/samples")
    agent = post("/v1/agents")["id"]
    measurement = post("/v1/calibrations:measure", status=202)["id"]
    lease = http.post(f"/v1/agents/{agent}/lease", headers=one).json()
    assert lease["measurement"]["id"] == measurement
    step = {"step_ns": found["cost"]["step_ns"] * 2}
    assert http.post(f"/v1/plans/{plan}/observations", json=step, headers=one).is_success
    sweep = post("/v1/sweeps", status=202)["id"]
    until(lambda: http.get(f"/v1/sweeps/{sweep}", headers=one).json()["state"] == "done")
    ids = {
        "plan": plan,
        "cost_graph": cost_graph["id"],
        "solution": solution,
        "graph": found["graph"],
        "topology": found["topology"],
        "setup": found["setup"],
        "calibration": measured["calibration"],
        "samples": measured["id"],
        "agent": agent,
        "sweep": sweep,
        "measurement": measurement,
        "job": measurement,
        "rank": "0",
        "target": "jax",
        "preset": "h100-1x8",
        "example": "llama3-8b",
        "key": http.get("/v1/keys", headers=one).json()["keys"][0]["id"],
    }
    return World(http, ids, one, other)


def test_every_endpoint_asks_who_it_is_and_for_the_scope_that_it_says(world: World) -> None:
    without = {
        scope: key_of(world.http, *(own for own in SCOPES if own not in (scope, "admin")))
        for scope in SCOPES
    }
    for method, path in world.endpoints():
        answer = world.ask(method, path, {})
        if path in OPEN:
            assert answer.status_code == 200
            continue
        assert answer.status_code == 401, (method, path)
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.json()["type"] == "urn:meshwright:problem:unauthorized"
        if path in SAME_FOR_ALL:
            continue
        needed = scope_of(method, path)
        answer = world.ask(method, path, without[needed])
        assert answer.status_code == 403, (method, path)
        assert f"scope '{needed}'" in answer.json()["detail"]


def test_what_one_has_is_not_there_for_the_other(world: World) -> None:
    own = {value for name, value in world.ids.items() if name != "rank"}
    before = world.ask("get", "/v1/jobs", world.one).json()
    for method, path in world.endpoints():
        if path in OPEN | SAME_FOR_ALL | OPERATORS:
            continue
        for headers in (world.other, {**world.other, "If-None-Match": "*"}):
            if "{" in path + QUERIES.get(path, ""):
                answer = world.ask(method, path, headers)
                assert answer.status_code == 404, (method, path, answer.text)
            elif method == "get":
                answer = world.ask(method, path, headers)
                assert answer.status_code == 200, (method, path)
                assert not any(id_ in answer.text for id_ in own), (method, path)
                lists = re.findall(r'"\w+":\[\{', answer.text)
                assert lists == (['"keys":[{'] if path == "/v1/keys" else []), (method, path)
    assert world.ask("get", "/v1/jobs", world.one).json() == before
    assert world.ask("get", "/v1/plans/{plan}", world.one).status_code == 200


def test_what_both_store_is_new_to_both(world: World) -> None:
    http, other = world.http, world.other
    by_id = {"graph": world.ids["graph"], "topology": world.ids["topology"]}
    running = {**ASKED, "from_plan": world.ids["plan"]}
    for body in (by_id, running):
        assert http.post("/v1/plan", json=body, headers=other).status_code == 404
    for shelf in ("graphs", "topologies", "calibrations", "samples", "agents"):
        path = f"/v1/{shelf}"
        first, again = (http.post(path, json=BODIES[path], headers=other) for _ in range(2))
        assert (first.status_code, again.status_code) == (201, 200), path
    cached = http.post("/v1/plan", json=ASKED, headers=world.one)
    asked = http.post("/v1/plan", json=ASKED, headers=other)
    assert (cached.status_code, asked.status_code) == (200, 202)
    assert asked.json()["id"] not in cached.text
    job = f"/v1/jobs/{asked.json()['id']}"
    ended = until(lambda: _ended(http.get(job, headers=other).json()))
    assert ended["plan"] == world.ids["plan"]  # the same bytes
    assert "certificate" not in ended
    certificate = f"/v1/plans/{world.ids['plan']}/certificate"
    assert http.get(certificate, headers=world.one).status_code == 200
    assert http.get(certificate, headers=other).status_code == 404
    assert "Link" not in http.post("/v1/plan", json=ASKED, headers=other).headers
    step = {"step_ns": 6.0}
    path = f"/v1/plans/{world.ids['plan']}/observations"
    assert http.post(path, json=step, headers=other).json()["observations"] == 1
    assert http.post(path, json=step, headers=world.one).json()["observations"] == 2


def test_a_measurement_is_for_the_agents_of_its_tenant(world: World) -> None:
    http, other = world.http, world.other
    to_one = {"agent": world.ids["agent"]}
    path = "/v1/calibrations:measure"
    assert http.post(path, json=to_one, headers=other).status_code == 404
    refused = http.post(path, json={}, headers=other)
    assert refused.json()["type"] == "urn:meshwright:problem:no-agent"
    assert http.post("/v1/agents", json=AGENT, headers=other).status_code == 201
    assert http.post(path, json={}, headers=world.one).status_code == 202
    lease = f"/v1/agents/{world.ids['agent']}/lease"
    assert http.post(lease, headers=other).json() == {}
    assert "measurement" in http.post(lease, headers=world.one).json()


def test_an_agent_answers_to_the_key_that_registered_it(world: World) -> None:
    http, agent = world.http, world.ids["agent"]
    second = key_of(http, "agent", tenant="one")
    results = {"attempt": 1, "lost": "nothing is lost"}
    where = f"/v1/agents/{agent}/measurements/{world.ids['measurement']}/results"
    for path, body in (
        ("/v1/agents", AGENT),
        (f"/v1/agents/{agent}/heartbeat", {}),
        (f"/v1/agents/{agent}/lease", None),
        (where, results),
    ):
        answer = http.post(path, json=body, headers=second)
        assert answer.status_code == 403, path
        assert "another key of your tenant registered" in answer.json()["detail"]
    admin = key_of(http, "admin", tenant="one")
    assert http.delete(f"/v1/keys/{world.ids['key']}", headers=admin).status_code == 200
    assert http.post("/v1/agents", json=AGENT, headers=second).status_code == 200
    assert http.post(f"/v1/agents/{agent}/heartbeat", json={}, headers=second).is_success


def _ended(job: dict[str, Any]) -> dict[str, Any] | None:
    return job if job["state"] == "succeeded" else None
