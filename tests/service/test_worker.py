"""Searches in child processes: killed, cancelled, timed out, restarted."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from service.app import create_app
from service.settings import Settings
from tests.service.conftest import Serve, until
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
    http = serve("endless")
    job = _submit(http)
    pid = _pid(http, job, 1)
    cancelled = http.post(f"/v1/jobs/{job}/cancel").json()
    assert cancelled["state"] == "cancelled"
    assert cancelled["progress"]["incumbent_ns"] == 5
    until(lambda: not _alive(pid), seconds=5)
    assert http.post(f"/v1/jobs/{job}/cancel").json() == cancelled


def test_a_queued_job_can_be_cancelled(serve: Serve) -> None:
    http = serve(workers=0)
    job = _submit(http)
    assert http.post(f"/v1/jobs/{job}/cancel").json()["state"] == "cancelled"


def test_the_worker_goes_on_after_a_cancel(serve: Serve) -> None:
    http = serve("endless")
    first = _submit(http)
    _pid(http, first, 1)
    second = _submit(http, "?fresh=true")
    http.post(f"/v1/jobs/{first}/cancel")
    assert _pid(http, second, 1)


def test_a_search_that_takes_too_long_is_ended(serve: Serve) -> None:
    http = serve("endless", solve_s=0.3)
    job = _ended(http, _submit(http))
    assert job["problem"]["type"] == "urn:meshwright:problem:timed-out"


def test_a_planner_that_cannot_be_found_fails_the_job(serve: Serve) -> None:
    http = serve("no_such_function")
    job = _ended(http, _submit(http))
    assert "no_such_function" in job["problem"]["detail"]


def test_a_service_that_stops_ends_its_search_and_queues_the_job_again(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, poll_s=0.02)
    with TestClient(create_app(settings, planner="tests.service.planners:endless")) as http:
        job = _submit(http)
        pid = _pid(http, job, 1)
    assert not _alive(pid)
    with TestClient(create_app(settings, planner="tests.service.planners:tiny")) as http:
        assert _ended(http, job)["outcome"] == "optimal"


def test_plans_outlive_the_service(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, poll_s=0.02)
    app = create_app(settings, planner="tests.service.planners:tiny")
    with TestClient(app) as http:
        plan = _ended(http, _submit(http))["plan"]
    with TestClient(create_app(settings, planner="tests.service.planners:tiny")) as http:
        assert http.get(f"/v1/plans/{plan}").status_code == 200
        assert http.post("/v1/plan", json=REQUEST).status_code == 200


def _submit(http: TestClient, query: str = "") -> str:
    job: str = http.post(f"/v1/plan{query}", json=REQUEST).json()["id"]
    return job


def _ended(http: TestClient, job: str) -> dict[str, Any]:
    found: dict[str, Any] = http.get(f"/v1/jobs/{job}", params={"wait": 20}).json()
    assert found["state"] not in ("queued", "running")
    return found


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
