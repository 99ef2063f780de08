"""API and workers in processes of their own, on one PostgreSQL that comes and goes."""

from __future__ import annotations

import os
import re
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from starlette.testclient import TestClient

from bench.postgresql import PostgreSQL, running
from meshwright_service.api.app import create_app
from meshwright_service.common.settings import Settings
from meshwright_service.store.database import Database
from tests import programs
from tests.programs import SERVER, Program, started
from tests.service.conftest import local, until
from tests.service.planners import COUNT
from tests.service.samples import REQUEST


@pytest.fixture
def store(postgresql: PostgreSQL, upgraded: str) -> Iterator[str]:
    """Of PostgreSQL: more than one machine is for nothing else."""
    name = postgresql.create(upgraded)
    yield postgresql.url(name)
    postgresql.drop(name)


@contextmanager
def program(folder: Path, *words: str, **environment: str) -> Iterator[tuple[str, Any]]:
    """`meshwright-server WORDS…`: the line that it prints once it runs, and the process."""
    with (
        (folder / f"errors of {words[0]}").open("a") as errors,
        started(SERVER, words, errors, {**os.environ, **environment}) as (process, output),
    ):
        yield output.readline(), process


def test_jobs_of_one_api_are_done_by_workers_of_which_one_is_killed(
    store: str, tmp_path: Path
) -> None:
    count = tmp_path / "searches"
    given = {
        "MESHWRIGHT_DATABASE_URL": store,
        "MESHWRIGHT_PLANNER": "tests.service.planners:counted",
        "MESHWRIGHT_LEASE_S": "1",
        COUNT: str(count),
    }
    endless = given | {"MESHWRIGHT_PLANNER": "tests.service.planners:endless"}
    with ExitStack() as stack:
        said, _ = stack.enter_context(
            program(tmp_path, "serve", "--port", "0", "--workers", "0", **given)
        )
        found = re.search(r"http://[0-9.]+:\d+", said)
        assert found, said
        http = stack.enter_context(httpx.Client(base_url=found[0]))
        jobs = [http.post("/v1/plan?fresh=true", json=REQUEST).json()["id"] for _ in range(6)]
        _, killed = stack.enter_context(program(tmp_path, "worker", **endless))
        until(lambda: http.get("/v1/jobs?state=running").json()["jobs"])
        killed.send_signal(signal.SIGKILL)
        for _ in range(2):
            said, _ = stack.enter_context(program(tmp_path, "worker", **given))
            assert "Meshwright works" in said
        ended = [http.get(f"/v1/jobs/{job}?wait=60").json() for job in jobs]
    assert [own["state"] for own in ended] == ["succeeded"] * 6
    assert count.read_text() == "searched\n" * 6
    assert sum(own["attempt"] for own in ended) == 7


def test_a_schema_is_brought_up_to_date_on_demand_only(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    name = postgresql.create()
    url = postgresql.url(name)

    def run(*words: str) -> tuple[int, str]:
        ran = programs.run(SERVER, *words, "--database", url)
        return ran.returncode, ran.stdout + ran.stderr

    status, said = run("serve", "--port", "0")
    assert (status, "run meshwright-server db upgrade" in said) == (2, True), said
    assert run("worker")[0] == 2
    status, said = run("db", "upgrade")
    assert (status, "was empty" in said) == (0, True), said
    assert "as it was" in run("db", "upgrade")[1]
    with program(tmp_path, "worker", "--database", url) as (said, process):
        assert "Meshwright works" in said
    assert process.returncode == 0
    postgresql.drop(name)


def test_a_schema_does_not_change_under_a_process_at_work(postgresql: PostgreSQL) -> None:
    name = postgresql.create()
    words = ["db", "upgrade", "--database", postgresql.url(name)]
    at_work = Database(postgresql.url(name))
    assert at_work.revision() is None
    ran = programs.run(SERVER, *words)
    assert (ran.returncode, "End the service and its workers first" in ran.stderr) == (2, True)
    assert at_work.revision() is None
    at_work.close()
    with tempfile.TemporaryFile("w+") as said:
        both = [Program(SERVER, words, stdout=said, stderr=said) for _ in range(2)]
        codes = [one.wait(timeout=120) for one in both]
        said.seek(0)
        assert codes == [0, 0], said.read()
    assert at_work.is_current()
    ran = programs.run(SERVER, *words)
    assert (ran.returncode, "as it was" in ran.stdout) == (0, True), ran.stderr
    at_work.close()
    postgresql.drop(name)


def test_a_database_that_restarts_costs_no_job_and_no_search(count: Path) -> None:
    with running() as server:
        url = server.url(server.create())
        database = Database(url)
        database.upgrade()
        database.close()
        settings = Settings(database_url=url, poll_s=0.02, lease_s=20)
        app = create_app(settings, planner="tests.service.planners:slow")
        with local(app) as http:
            job = http.post("/v1/plan", json=REQUEST).json()["id"]
            until(count.exists)
            server.stop()
            away = http.get(f"/v1/jobs/{job}")
            assert (away.status_code, away.json()["type"]) == (
                503,
                "urn:meshwright:problem:unavailable",
            )
            assert http.get("/readyz").status_code == 503
            assert http.get("/healthz").status_code == 200
            until(lambda: count.read_text() == "begun\nended\n")
            server.start()
            ended = until(lambda: _ended(http, job))
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1)
    assert count.read_text() == "begun\nended\n"


def _ended(http: TestClient, job: str) -> Any:
    answer = http.get(f"/v1/jobs/{job}")
    found = answer.json()
    return found if answer.status_code == 200 and found["state"] == "succeeded" else None
