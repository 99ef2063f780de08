"""Searches in child processes: killed, cancelled, timed out, restarted."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from meshwright.common.process_pool import usual_processes
from meshwright_service.api.app import create_app
from meshwright_service.common.memory_limit import share_of_memory
from meshwright_service.common.settings import Settings
from tests.service.conftest import Serve, local, until
from tests.service.samples import REQUEST


def test_a_search_that_is_killed_each_time_fails_and_does_not_hang(serve: Serve) -> None:
    http = serve("dying", max_losses=2)
    job = _ended(http, _submit(http))
    assert (job["state"], job["attempt"]) == ("failed", 2)
    assert job["problem"]["type"] == "urn:meshwright:problem:worker-lost"


def test_a_search_that_is_killed_once_is_tried_again(serve: Serve) -> None:
    http = serve("endless")
    job = _submit(http)
    first = _pid(http, job, 1)
    os.kill(first, signal.SIGKILL)
    assert _pid(http, job, 2) != first


def test_cancel_ends_the_search_and_keeps_its_progress(serve: Serve) -> None:
    http = serve("endless", cancel_grace_s=0.1)
    job = _submit(http)
    pid = _pid(http, job, 1)
    cancelled = http.post(f"/v1/jobs/{job}/cancel").json()
    assert cancelled["state"] == "cancelled"
    assert cancelled["progress"]["incumbent_ns"] == 5
    until(lambda: not _alive(pid))
    assert http.post(f"/v1/jobs/{job}/cancel").json() == cancelled


def test_a_queued_job_can_be_cancelled(serve: Serve) -> None:
    http = serve(workers=0)
    job = _submit(http)
    assert http.post(f"/v1/jobs/{job}/cancel").json()["state"] == "cancelled"


def test_the_worker_goes_on_after_a_cancel(serve: Serve) -> None:
    http = serve("endless", cancel_grace_s=0.1)
    first = _submit(http)
    _pid(http, first, 1)
    second = _submit(http, "?fresh=true")
    http.post(f"/v1/jobs/{first}/cancel")
    assert _pid(http, second, 1)


def test_a_cancelled_search_leaves_its_best_plan_so_far(serve: Serve) -> None:
    http = serve("improving", cancel_grace_s=60)  # as long as a busy machine may take
    job = _submit(http)
    _pid(http, job, 1)
    begun = time.monotonic()
    cancelled = http.post(f"/v1/jobs/{job}/cancel").json()
    assert time.monotonic() - begun < 30  # the answer waits for no grace
    assert cancelled["state"] == "cancelled"
    ended = _ended(http, job)
    assert (ended["state"], ended["outcome"], ended["ended_early"]) == (
        "cancelled",
        "feasible",
        True,
    )
    assert ended["finished_at"] == cancelled["finished_at"]
    plan = http.get(f"/v1/plans/{ended['plan']}").json()
    history = plan["search"]["history"]
    assert plan["cost"]["step_ns"] == history[-1]["cost_ns"] <= ended["progress"]["incumbent_ns"]
    assert len(ended["seconds"]) == len(history)
    assert ended["seconds"] == sorted(ended["seconds"])


def test_who_waits_for_a_plan_gets_the_best_until_the_cancel(serve: Serve) -> None:
    http = serve("improving", cancel_grace_s=20)
    job = _submit(http)
    _pid(http, job, 1)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(http.post, "/v1/plan", json=REQUEST, headers={"Prefer": "wait=60"})
        time.sleep(1.0)  # it has to come in before the cancel, or it asks for a search of its own
        http.post(f"/v1/jobs/{job}/cancel")
        answer = waiting.result(timeout=120)
    assert answer.json()["search"]["outcome"] == "feasible"
    assert answer.headers["location"] == f"/v1/jobs/{job}"
    assert http.post("/v1/plan", json=REQUEST).headers["location"] != f"/v1/jobs/{job}"


def test_a_search_that_is_cancelled_before_it_has_a_plan_leaves_none(serve: Serve) -> None:
    http = serve("fruitless", cancel_grace_s=20)
    job = _submit(http)
    _pid(http, job, 1)
    cancelled = http.post(f"/v1/jobs/{job}/cancel").json()
    assert _ended(http, job) == cancelled
    assert "plan" not in cancelled
    assert "infeasible" not in cancelled


def test_a_cancelled_search_that_goes_on_is_killed_after_its_grace(serve: Serve) -> None:
    http = serve("endless", cancel_grace_s=0.5)
    job = _submit(http)
    pid = _pid(http, job, 1)
    begun = time.monotonic()
    http.post(f"/v1/jobs/{job}/cancel")
    assert "plan" not in _ended(http, job)
    assert time.monotonic() - begun >= 0.5
    assert not _alive(pid)


def test_a_search_that_takes_too_long_succeeds_with_its_best_plan(serve: Serve) -> None:
    verifier = "tests.service.verifiers:passing"
    http = serve("improving", solve_s=4, solve_grace_s=20, verifier=verifier)
    job = http.post("/v1/plan", json={**REQUEST, "verify": True}).json()["id"]
    ended = _ended(http, job)
    assert (ended["state"], ended["outcome"]) == ("succeeded", "feasible")
    assert ended["ended_early"]
    assert ended["certificate"]["outcome"] == "verified"  # it is verified as any other
    plan = http.get(f"/v1/plans/{ended['plan']}").json()
    assert plan["search"]["lower_bound_ns"] == 1
    assert http.post("/v1/plan?allow_partial=true", json=REQUEST).json() == plan
    assert http.post("/v1/plan", json=REQUEST).status_code == 202  # by default a new search


@pytest.mark.parametrize(
    ("planner", "solve_s"), [("fruitless", 1.5), ("endless", 1.5), ("endless", 0.05)]
)
def test_a_search_that_takes_too_long_without_a_plan_fails(
    serve: Serve, planner: str, solve_s: float
) -> None:
    http = serve(planner, solve_s=solve_s, solve_grace_s=1)
    job = _ended(http, _submit(http))
    assert job["problem"]["type"] == "urn:meshwright:problem:timed-out"
    assert job["attempt"] == 1
    assert "plan" not in job


@pytest.mark.parametrize(
    ("limit", "gib"), [(2**31, "2.0"), (0, f"{share_of_memory(1, usual_processes()) / 2**30:.1f}")]
)
def test_a_search_that_takes_too_much_memory_fails_and_says_so(
    serve: Serve, limit: int, gib: str
) -> None:
    http = serve("greedy", solve_memory_bytes=limit)
    job = _ended(http, _submit(http))
    assert job["problem"]["type"] == "urn:meshwright:problem:out-of-memory"
    assert f"more than {gib} GiB" in job["problem"]["detail"]
    assert job["attempt"] == 1


def test_both_the_best_cost_and_the_bound_of_a_search_are_told(serve: Serve) -> None:
    http = serve("improving")
    job = _submit(http)
    _pid(http, job, 1)
    progress = http.get(f"/v1/jobs/{job}").json()["progress"]
    assert progress["lower_bound_ns"] == 1 < progress["incumbent_ns"] <= 100


def test_a_planner_that_cannot_be_found_fails_the_job(serve: Serve) -> None:
    http = serve("no_such_function")
    job = _ended(http, _submit(http))
    assert "no_such_function" in job["problem"]["detail"]


def test_a_service_that_stops_ends_its_search_and_queues_the_job_again(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, poll_s=0.02)
    with local(create_app(settings, planner="tests.service.planners:endless")) as http:
        job = _submit(http)
        pid = _pid(http, job, 1)
    assert not _alive(pid)
    with local(create_app(settings, planner="tests.service.planners:tiny")) as http:
        assert _ended(http, job)["outcome"] == "optimal"


def test_plans_outlive_the_service(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, poll_s=0.02)
    app = create_app(settings, planner="tests.service.planners:tiny")
    with local(app) as http:
        plan = _ended(http, _submit(http))["plan"]
    with local(create_app(settings, planner="tests.service.planners:tiny")) as http:
        assert http.get(f"/v1/plans/{plan}").status_code == 200
        assert http.post("/v1/plan", json=REQUEST).status_code == 200


def _submit(http: TestClient, query: str = "") -> str:
    job: str = http.post(f"/v1/plan{query}", json=REQUEST).json()["id"]
    return job


def _ended(http: TestClient, job: str) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = http.get(f"/v1/jobs/{job}", params={"wait": 60}).json()
        return None if found["state"] in ("queued", "running") else found

    return dict(until(ended))


def _pid(http: TestClient, job: str, attempt: int) -> int:
    """The process of an attempt, once it has reported."""

    def reported() -> int:
        found = http.get(f"/v1/jobs/{job}").json()
        phase = found.get("progress", {}).get("phase", "")
        pid = int(phase.removeprefix("pid ") or 0)
        return pid if found["attempt"] == attempt and _alive(pid) else 0

    return int(until(reported))


def _alive(pid: int) -> bool:
    return pid > 0 and Path(f"/proc/{pid}").exists()
