"""`verify: true`: plans with their certificates beside them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from meshwright_service.api.app import create_app
from meshwright_service.common.settings import Settings
from tests.service.conftest import Serve, local, tell, until
from tests.service.samples import REQUEST, request
from tests.service.verifiers import MARK

WAIT = {"Prefer": "wait=60"}
VERIFY = request(verify=True)
PLAIN = request(verify=False)


def with_verifier(serve: Serve, verifier: str, planner: str = "tiny", **more: Any) -> TestClient:
    return serve(planner, verifier=f"tests.service.verifiers:{verifier}", **more)


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the endless verifier says its process id."""
    path = tmp_path / "verifier"
    tell(monkeypatch, MARK, path)
    return path


def test_a_plan_gets_its_certificate(serve: Serve) -> None:
    http = with_verifier(serve, "passing")
    answer = http.post("/v1/plan", json=VERIFY, headers=WAIT)
    assert answer.status_code == 200
    plan = only_plan(http)
    assert answer.headers["content-location"] == f"/v1/plans/{plan['id']}"
    assert answer.headers["link"] == f'</v1/plans/{plan["id"]}/certificate>; rel="describedby"'
    certificate = http.get(f"/v1/plans/{plan['id']}/certificate").json()
    # the graph of the samples has 5 tensors
    assert certificate["outcome"] == "verified"
    assert (certificate["plan"], certificate["tensors"]) == (plan["id"], 5)
    (job,) = jobs(http)
    assert job["certificate"]["outcome"] == "verified"
    assert (job["state"], job["outcome"], job["plan"]) == ("succeeded", "optimal", plan["id"])
    assert job["progress"] == {"phase": "verifying", "done": 1, "total": 1}


def test_a_plan_that_is_wrong_succeeds_loudly(serve: Serve) -> None:
    http = with_verifier(serve, "failing")
    assert http.post("/v1/plan", json=VERIFY, headers=WAIT).status_code == 200
    (job,) = jobs(http)
    assert job["state"] == "succeeded"
    assert (job["certificate"]["outcome"], job["certificate"]["detail"]) == (
        "failed",
        "tensor 'y' differs",
    )
    assert only_plan(http)["certificate"] == "failed"


def test_nobody_asked_is_not_verified(serve: Serve) -> None:
    http = with_verifier(serve, "passing")
    for body in (REQUEST, PLAIN):
        assert "link" not in http.post("/v1/plan", json=body, headers=WAIT).headers
    plan = only_plan(http)
    assert "certificate" not in plan
    missing = http.get(f"/v1/plans/{plan['id']}/certificate")
    assert missing.status_code == 404
    assert "verify: true" in missing.json()["detail"]
    assert http.get("/v1/plans/plan_0/certificate").status_code == 404
    assert "'plan_0'" in http.get("/v1/plans/plan_0/certificate").json()["detail"]


def test_a_stored_plan_is_verified_without_a_new_search(serve: Serve, count: Path) -> None:
    http = with_verifier(serve, "passing", "counted")
    plan = http.post("/v1/plan", json=REQUEST, headers=WAIT).json()
    answer = http.post("/v1/plan", json=VERIFY)
    assert answer.status_code == 202
    job = ended(http, answer.json()["id"])
    assert job["certificate"]["outcome"] == "verified"
    assert http.post("/v1/plan", json=VERIFY).json() == plan
    assert len(jobs(http)) == 2
    assert count.read_text() == "searched\n"


def test_a_certificate_answers_the_next_who_asks(serve: Serve) -> None:
    http = with_verifier(serve, "passing")
    first = http.post("/v1/plan", json=VERIFY, headers=WAIT)
    for body in (VERIFY, REQUEST):
        again = http.post("/v1/plan", json=body)
        assert (again.status_code, again.json()) == (200, first.json())
    assert len(jobs(http)) == 1


def test_who_does_not_ask_gets_the_plan_while_it_is_verified(serve: Serve, mark: Path) -> None:
    http = with_verifier(serve, "endless")
    job = http.post("/v1/plan", json=VERIFY).json()["id"]
    pid_of(mark)
    running = http.get(f"/v1/jobs/{job}").json()
    assert (running["state"], running["progress"]["phase"]) == ("running", "verifying")
    assert running["plan"] == only_plan(http)["id"]
    assert http.post("/v1/plan", json=REQUEST, headers=WAIT).status_code == 200
    again = http.post("/v1/plan", json=VERIFY)
    assert (again.status_code, again.json()["id"]) == (202, job)


def test_a_search_under_way_is_asked_to_verify_as_well(serve: Serve) -> None:
    http = with_verifier(serve, "passing", workers=0)
    first = http.post("/v1/plan", json=REQUEST).json()
    assert first["verify"] is False
    second = http.post("/v1/plan", json=VERIFY).json()
    assert (second["id"], second["verify"]) == (first["id"], True)
    assert http.post("/v1/plan", json=REQUEST).json()["verify"] is True


def test_cancel_ends_the_verification_and_keeps_the_plan(serve: Serve, mark: Path) -> None:
    http = with_verifier(serve, "endless")
    job = http.post("/v1/plan", json=VERIFY).json()["id"]
    pid = pid_of(mark)
    cancelled = http.post(f"/v1/jobs/{job}/cancel").json()
    assert cancelled["state"] == "cancelled"
    assert cancelled["plan"] == only_plan(http)["id"]
    until(lambda: not Path(f"/proc/{pid}").exists())
    assert http.post("/v1/plan", json=REQUEST).status_code == 200
    assert http.post("/v1/plan", json=VERIFY).json()["id"] != job


def test_a_takeover_does_not_search_again(store: str, mark: Path) -> None:
    given: dict[str, Any] = {"database_url": store, "poll_s": 0.02}
    endless = Settings(**given, verifier="tests.service.verifiers:endless")
    with local(create_app(endless, planner="tests.service.planners:tiny")) as http:
        job = http.post("/v1/plan", json=VERIFY).json()["id"]
        pid = pid_of(mark)
    assert not Path(f"/proc/{pid}").exists()
    passing = Settings(**given, verifier="tests.service.verifiers:passing")
    # a planner that would never end
    with local(create_app(passing, planner="tests.service.planners:endless")) as http:
        found = ended(http, job)
    assert (found["attempt"], found["certificate"]["outcome"]) == (2, "verified")


def test_a_verification_that_is_killed_each_time_fails_and_the_plan_stays(serve: Serve) -> None:
    http = with_verifier(serve, "dying", max_losses=2)
    job = ended(http, http.post("/v1/plan", json=VERIFY).json()["id"])
    assert (job["state"], job["attempt"]) == ("failed", 2)
    assert job["problem"]["type"] == "urn:meshwright:problem:worker-lost"
    assert http.post("/v1/plan", json=REQUEST).status_code == 200
    assert job["plan"] == only_plan(http)["id"]


def test_a_verification_that_is_killed_once_is_tried_again(serve: Serve, mark: Path) -> None:
    http = with_verifier(serve, "endless")
    http.post("/v1/plan", json=VERIFY)
    first = pid_of(mark)
    mark.unlink()
    os.kill(first, signal.SIGKILL)
    assert pid_of(mark) != first


@pytest.mark.parametrize(
    ("verifier", "settings", "outcome", "detail"),
    [
        ("endless", {"verify_s": 0.3}, "not verifiable", "time: executing it takes longer than"),
        ("greedy", {}, "not verifiable", "memory: executing it takes more than 8.0 GiB"),
        ("broken", {}, "not verifiable", "ZeroDivisionError: a bug with two layers"),
        ("no_such_function", {}, "not verifiable", "no_such_function"),
        ("contradicting", {}, "failed", "the plan 'two layers' flatters itself"),
    ],
)
@pytest.mark.usefixtures("mark")
def test_what_ends_a_verification_is_in_its_certificate(
    serve: Serve, verifier: str, settings: dict[str, Any], outcome: str, detail: str
) -> None:
    http = with_verifier(serve, verifier, **settings)
    assert http.post("/v1/plan", json=VERIFY, headers=WAIT).status_code == 200
    (job,) = jobs(http)
    assert job["certificate"]["outcome"] == outcome
    assert detail in job["certificate"]["detail"]


def test_what_has_no_plan_has_no_certificate(serve: Serve) -> None:
    http = with_verifier(serve, "passing", "infeasible")
    job = http.post("/v1/plan", json=VERIFY, headers=WAIT).json()
    assert (job["outcome"], "certificate" in job) == ("infeasible", False)
    assert http.post("/v1/plan", json=VERIFY).json()["id"] == job["id"]


@pytest.mark.usefixtures("mark")
def test_fresh_verifies_again_and_a_verdict_is_not_lost(store: str) -> None:
    outcomes = []
    for verifier in ("failing", "endless", "passing"):
        settings = Settings(
            database_url=store, poll_s=0.02, verify_s=0.3 if verifier == "endless" else 20,
            verifier=f"tests.service.verifiers:{verifier}",
        )  # fmt: skip
        with local(create_app(settings, planner="tests.service.planners:tiny")) as http:
            http.post("/v1/plan?fresh=true", json=VERIFY, headers=WAIT)
            own = http.get("/v1/jobs").json()["jobs"][0]["certificate"]["outcome"]
            outcomes.append((own, only_plan(http)["certificate"]))
    # what ran out of time says so of itself, and leaves what is known of the plan
    assert outcomes == [
        ("failed", "failed"), ("not verifiable", "failed"), ("verified", "verified"),
    ]  # fmt: skip


def test_a_certificate_has_an_etag_but_may_be_replaced(serve: Serve) -> None:
    http = with_verifier(serve, "passing")
    http.post("/v1/plan", json=VERIFY, headers=WAIT)
    path = f"/v1/plans/{only_plan(http)['id']}/certificate"
    answer = http.get(path)
    assert answer.headers["cache-control"] == "private, no-cache"
    again = http.get(path, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def only_plan(http: TestClient) -> dict[str, Any]:
    (plan,) = http.get("/v1/plans").json()["plans"]
    assert isinstance(plan, dict)
    return plan


def jobs(http: TestClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http.get("/v1/jobs").json()["jobs"]
    return found


def ended(http: TestClient, job: str) -> dict[str, Any]:
    found: dict[str, Any] = http.get(f"/v1/jobs/{job}", params={"wait": 60}).json()
    assert found["state"] not in ("queued", "running")
    return found


def pid_of(mark: Path) -> int:
    """The process of the endless verifier, once it runs."""
    return int(until(lambda: mark.exists() and mark.read_text()))
