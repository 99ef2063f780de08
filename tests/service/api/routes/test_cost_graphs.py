"""POST /v1/cost-graphs:solve: cost graphs of other compilers, as jobs."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from meshwright.schema.cost_graph import CostGraphFile
from tests.service.conftest import Serve, until
from tests.service.keyed import key_of
from tests.solver.cost_graph_files import CONTEST_EXAMPLE, TWO_NODES, file_of

SOLVERS = "tests.service.cost_graph_solvers:"
WAIT = {"Prefer": "wait=60"}
BODY: dict[str, Any] = {"problem": CONTEST_EXAMPLE, "engine": "exact"}


def solve(http: TestClient, body: dict[str, Any] | None = None, **query: str) -> Any:
    return http.post("/v1/cost-graphs:solve", json=body or BODY, params=query, headers=WAIT)


def begun(http: TestClient, **query: str) -> str:
    """The id of a job that has reported a step."""
    answer = http.post("/v1/cost-graphs:solve", json=BODY, params=query)
    assert answer.status_code == 202
    job: str = answer.json()["id"]
    assert answer.headers["location"] == f"/v1/jobs/{job}"
    until(lambda: http.get(f"/v1/jobs/{job}").json().get("progress"))
    return job


def test_the_solver_itself_answers_with_the_solution(serve: Serve) -> None:
    http = serve()
    answer = solve(http)
    assert answer.status_code == 200
    solution = answer.json()
    assert (solution["status"], solution["cost"], solution["lower_bound"]) == ("optimal", 445, 445)
    assert solution["choice"] == [0, 0, 2, 1, 0]
    where = answer.headers["content-location"]
    assert where.startswith("/v1/solutions/solution_")
    assert http.get(where).json() == solution
    job = http.get(answer.headers["location"]).json()
    assert (job["kind"], job["state"], job["outcome"]) == ("solution", "succeeded", "optimal")
    assert job["cost_graph_name"] == "example"
    assert where == f"/v1/solutions/{job['solution']}"
    assert http.get(f"{where}/summary").json()["summary"]["gap"] == 0
    assert job["cost_graph"] == file_of(CONTEST_EXAMPLE).id
    stored = http.get(f"/v1/cost-graphs/{job['cost_graph']}").json()
    assert CostGraphFile.from_dict(stored) == file_of(CONTEST_EXAMPLE)
    (entry,) = http.get("/v1/cost-graphs").json()["cost_graphs"]
    assert entry["summary"] == {"nodes": 5, "edges": 5, "strategies": 9, "usage_limit": 50}
    assert http.get(f"/v1/cost-graphs/{job['cost_graph']}/summary").json() == entry


def test_an_infeasible_cost_graph_has_a_solution_that_says_so(serve: Serve) -> None:
    # at time 1 every pair of TWO_NODES uses 3 at least
    answer = solve(serve(), {"problem": {**TWO_NODES, "usage_limit": 2}, "engine": "exact"})
    assert answer.status_code == 200
    solution = answer.json()
    assert (solution["status"], solution["usage_limit"]) == ("infeasible", 2)
    assert "choice" not in solution
    assert solution["notes"] == ["every choice takes more memory than the limit"]


def test_the_same_cost_graph_is_answered_without_a_search(serve: Serve, count: Path) -> None:
    http = serve(cost_graph_solver=f"{SOLVERS}counted")
    first = solve(http)
    again = solve(http)
    assert again.headers["location"] == first.headers["location"]
    other_notation = json.loads(json.dumps(BODY).replace("445", "445.0"))
    assert solve(http, other_notation).headers["location"] == first.headers["location"]
    assert count.read_text() == "0\n"
    by_id = {"cost_graph": file_of(CONTEST_EXAMPLE).id, "engine": "exact", "seed": 7}
    assert solve(http, by_id).json()["seed"] == 7
    assert solve(http, fresh="true").headers["location"] != first.headers["location"]
    assert count.read_text() == "0\n7\n0\n"
    job = first.headers["location"]
    asked = http.get(f"{job}/request").json()
    assert asked == {**by_id, "seed": 0, "seconds": 60}
    assert solve(http, asked).headers["location"] != job  # the newest job answers
    lines = http.get("/metrics").text
    assert 'meshwright_cost_graph_requests_total{answer="stored"} 3.0' in lines


def test_an_idempotency_key_names_one_job(serve: Serve) -> None:
    http = serve(workers=0)
    send = {"url": "/v1/cost-graphs:solve", "json": BODY, "params": {"fresh": "true"}}
    key = {"Idempotency-Key": "one"}
    first, again = (http.post(**send, headers=key).json()["id"] for _ in range(2))
    assert first == again
    other = http.post(**{**send, "json": {**BODY, "seed": 1}}, headers=key)
    assert other.status_code == 422
    assert other.json()["type"].endswith("idempotency-key-reused")


def test_progress_and_the_end_are_events(serve: Serve) -> None:
    http = serve(cost_graph_solver=f"{SOLVERS}improving", cancel_grace_s=20)
    job = begun(http)
    http.post(f"/v1/jobs/{job}/cancel")
    events = http.get(f"/v1/jobs/{job}/events").text
    assert '"progress":{"engine":"lagrangian","cost":1000.0,"lower_bound":1.0}' in events
    assert "event: solution\n" in events
    assert events.count("event: job\n") == 1


def test_a_cancelled_search_leaves_its_best_choice_so_far(serve: Serve) -> None:
    http = serve(cost_graph_solver=f"{SOLVERS}improving", cancel_grace_s=20)
    job = begun(http)
    assert http.post(f"/v1/jobs/{job}/cancel").json()["state"] == "cancelled"
    ended = http.get(f"/v1/jobs/{job}", params={"wait": 60}).json()
    assert (ended["state"], ended["outcome"], ended["ended_early"]) == (
        "cancelled", "feasible", True,
    )  # fmt: skip
    solution = http.get(f"/v1/solutions/{ended['solution']}").json()
    assert solution["cost"] <= ended["progress"]["cost"]
    # it answers nobody else, unless they ask for such answers
    assert solve(http, allow_partial="true").headers["location"] == f"/v1/jobs/{job}"
    assert begun(http) != job


def test_a_cancelled_search_without_a_choice_leaves_none(serve: Serve) -> None:
    http = serve(cost_graph_solver=f"{SOLVERS}fruitless", cancel_grace_s=20)
    job = begun(http)
    http.post(f"/v1/jobs/{job}/cancel")
    ended = http.get(f"/v1/jobs/{job}", params={"wait": 60}).json()
    assert ended["state"] == "cancelled"
    assert "solution" not in ended


def test_a_search_that_takes_too_long_answers_with_its_best_choice(serve: Serve) -> None:
    # the limit counts from the start of the process, which loads the solver first
    http = serve(cost_graph_solver=f"{SOLVERS}improving", solve_s=10)
    answer = solve(http)
    assert answer.json()["status"] == "feasible"
    assert http.get(answer.headers["location"]).json()["ended_early"] is True


@pytest.mark.usefixtures("count")
def test_a_search_that_is_killed_is_tried_again(serve: Serve) -> None:
    http = serve(cost_graph_solver=f"{SOLVERS}endless_once")
    job = begun(http)
    os.kill(int(http.get(f"/v1/jobs/{job}").json()["progress"]["cost"]), signal.SIGKILL)
    ended = http.get(f"/v1/jobs/{job}", params={"wait": 60}).json()
    assert (ended["state"], ended["attempt"], ended["outcome"]) == ("succeeded", 2, "optimal")


@pytest.mark.parametrize(
    ("solver", "slug", "detail"),
    [
        ("refusing", "invalid-request", "the engine cannot search 'example'"),
        ("broken", "internal", "the solver failed: ZeroDivisionError: example"),
    ],
)
def test_a_solver_that_refuses_or_fails_ends_the_job(
    serve: Serve, solver: str, slug: str, detail: str
) -> None:
    job = solve(serve(cost_graph_solver=f"{SOLVERS}{solver}")).json()
    assert job["state"] == "failed"
    assert (job["problem"]["type"].rpartition(":")[2], job["problem"]["detail"]) == (slug, detail)


@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        (
            {"problem": {**TWO_NODES, "usage_limit": -1}},
            "/problem/usage_limit",
            "Use a number from 0, or leave it out",
        ),
        (
            {"problem": {**TWO_NODES, "edges": {"nodes": [[0, 7]], "costs": [[1]]}}},
            "/problem/edges/nodes/0",
            "there is no node 7",
        ),
        ({"problem": TWO_NODES, "second": 5}, "/second", "second"),
        ({"problem": TWO_NODES, "seconds": -1}, "/seconds", "seconds"),
        ({"problem": TWO_NODES, "cost_graph": "costgraph_" + "0" * 64}, "/problem", "either"),
        ({"cost_graph": "graph_1"}, "/cost_graph", "cost_graph"),
        ({}, "", "give either problem"),
    ],
)
def test_a_wrong_document_is_refused_with_the_field(
    serve: Serve, body: dict[str, Any], pointer: str, detail: str
) -> None:
    answer = serve(workers=0).post("/v1/cost-graphs:solve", json=body)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == pointer
    assert detail in error["detail"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"problem": NaN'])
def test_text_that_is_no_json_object_is_refused(serve: Serve, text: str) -> None:
    http = serve(workers=0)
    sent = {"content": text, "headers": {"Content-Type": "application/json"}}
    answer = http.post("/v1/cost-graphs:solve", **sent)
    assert answer.status_code == 400
    assert answer.json()["type"] == "urn:meshwright:problem:not-json"


def test_a_cost_graph_beyond_the_limits_is_refused(serve: Serve) -> None:
    answer = solve(serve(workers=0, max_cost_graph_values=20))
    assert answer.status_code == 413
    assert "MESHWRIGHT_MAX_COST_GRAPH_VALUES" in answer.json()["detail"]


def test_an_id_that_nobody_stored_is_not_found(serve: Serve) -> None:
    answer = solve(serve(workers=0), {"cost_graph": "costgraph_" + "0" * 64})
    assert answer.status_code == 404
    assert answer.json()["errors"][0]["pointer"] == "/cost_graph"


def test_another_tenant_sees_nothing(serve: Serve) -> None:
    http = serve()
    mine, theirs = key_of(http, "admin"), key_of(http, "admin", tenant="other")
    answer = http.post("/v1/cost-graphs:solve", json=BODY, headers={**WAIT, **mine})
    job = http.get(answer.headers["location"], headers=mine).json()
    paths = [
        f"/v1/jobs/{job['id']}", f"/v1/jobs/{job['id']}/request",
        f"/v1/solutions/{job['solution']}", f"/v1/cost-graphs/{job['cost_graph']}",
    ]  # fmt: skip
    for path in paths:
        assert http.get(path, headers=mine).status_code == 200
        assert http.get(path, headers=theirs).status_code == 404
        assert http.delete(path, headers=theirs).status_code in (404, 405)
    assert http.get("/v1/cost-graphs", headers=theirs).json()["cost_graphs"] == []
    by_id = {"cost_graph": job["cost_graph"]}
    assert http.post("/v1/cost-graphs:solve", json=by_id, headers=theirs).status_code == 404
    reader = key_of(http, "read")
    assert http.post("/v1/cost-graphs:solve", json=BODY, headers=reader).status_code == 403
    assert http.delete(paths[2], headers=reader).status_code == 403


def test_a_cost_graph_is_deleted_with_its_jobs_and_solutions(serve: Serve) -> None:
    http = serve()
    job = http.get(solve(http).headers["location"]).json()
    graph, solution = f"/v1/cost-graphs/{job['cost_graph']}", f"/v1/solutions/{job['solution']}"
    assert http.delete(graph).status_code == 204
    for path in (graph, solution, f"/v1/jobs/{job['id']}"):
        assert http.get(path).status_code == 404
    job = http.get(solve(http).headers["location"]).json()
    assert http.delete(solution).status_code == 204
    assert http.get(f"/v1/jobs/{job['id']}").status_code == 404
    assert http.get(graph).status_code == 200


def test_a_cost_graph_that_an_open_job_needs_stays(serve: Serve) -> None:
    http = serve(workers=0)
    job = http.post("/v1/cost-graphs:solve", json=BODY).json()
    assert http.delete(f"/v1/cost-graphs/{job['cost_graph']}").status_code == 409


def test_lists_of_jobs_are_of_one_kind(serve: Serve) -> None:
    http = serve(workers=0)
    job = http.post("/v1/cost-graphs:solve", json=BODY).json()
    assert [own["id"] for own in http.get("/v1/jobs?kind=solution").json()["jobs"]] == [job["id"]]
    assert http.get("/v1/jobs?kind=plan").json()["jobs"] == []


@pytest.mark.usefixtures("count")
def test_a_cost_graph_of_the_size_of_the_contest_is_taken(serve: Serve) -> None:
    problem = large_problem(35_000)
    body = gzip.compress(json.dumps({"problem": problem}).encode(), compresslevel=1)
    headers = {**WAIT, "Content-Type": "application/json", "Content-Encoding": "gzip"}
    http = serve(cost_graph_solver=f"{SOLVERS}counted")
    answer = http.post("/v1/cost-graphs:solve", content=body, headers=headers)
    job = http.get(answer.headers["location"], params={"wait": 60}).json()
    assert job["outcome"] == "optimal"
    solution = http.get(f"/v1/solutions/{job['solution']}").json()
    assert len(solution["choice"]) == 35_000


def large_problem(nodes: int) -> dict[str, Any]:
    """A chain with some longer edges, and lifetimes."""
    numbers = random.Random(1)
    strategies = [numbers.randint(2, 6) for _ in range(nodes)]
    pairs = [(a, min(a + numbers.randint(1, 9), nodes - 1)) for a in range(nodes - 1)]

    def costs(count: int) -> list[int]:
        return [numbers.randint(0, 10**7) for _ in range(count)]

    return {
        "name": "large",
        "nodes": {
            "intervals": [[at, at + numbers.randint(1, 40)] for at in range(nodes)],
            "costs": [costs(count) for count in strategies],
            "usages": [costs(count) for count in strategies],
        },
        "edges": {
            "nodes": [list(pair) for pair in pairs],
            "costs": [costs(strategies[a] * strategies[b]) for a, b in pairs],
        },
        "usage_limit": 10**9,
    }
