"""Copies of a store: taken from a service at work, restored, and the service goes on from there."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
from typer.testing import CliRunner

from bench.postgresql import PostgreSQL
from meshwright_service.cli.main import cli
from tests import programs
from tests.programs import SERVER
from tests.service.cli.test_server import url_in
from tests.service.conftest import server, until
from tests.service.samples import GRAPH, REQUEST
from tests.service.workers.test_workers import program

ENDLESS, TINY = (f"tests.service.planners:{name}" for name in ("endless", "tiny"))


def db(*words: str | Path) -> tuple[int, str]:
    """`meshwright-server db WORDS…`: how it ended and what it said."""
    ran = programs.run(SERVER, "db", *map(str, words))
    return ran.returncode, ran.stdout + ran.stderr


def db_here(*words: str | Path) -> tuple[int, str]:
    """The same in this process."""
    ran = CliRunner().invoke(cli, ["db", *map(str, words)])
    return ran.exit_code, ran.output


class Load:
    """Writes graphs into a service until it is ended. acknowledged: those that are stored."""

    def __init__(self, url: str) -> None:
        self.acknowledged: list[str] = []
        self._url = url
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        until(lambda: len(self.acknowledged) > 5)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=120)

    def _run(self) -> None:
        with httpx.Client(base_url=self._url) as http:
            while not self._ended.is_set():
                graph = {**GRAPH, "name": f"graph {len(self.acknowledged)}"}
                answer = http.post("/v1/graphs", json=graph)
                assert answer.status_code == 201, answer.text
                self.acknowledged.append(answer.json()["id"])


def begun(url: str) -> dict[str, Any]:
    """A job that runs, and one behind it in the queue."""
    jobs = [httpx.post(f"{url}/v1/plan?fresh=true", json=REQUEST).json()["id"] for _ in range(2)]
    until(lambda: httpx.get(f"{url}/v1/jobs/{jobs[0]}").json().get("progress"))
    return {job: httpx.get(f"{url}/v1/jobs/{job}").json()["state"] for job in jobs}


def check_goes_on(url: str, jobs: dict[str, Any], graphs: list[str]) -> None:
    """Every job ends, what ran is done once more and no more often, and every graph is there."""
    assert sorted(jobs.values()) == ["queued", "running"]
    for job, state in jobs.items():
        ended = httpx.get(f"{url}/v1/jobs/{job}?wait=60").json()
        assert (ended["state"], ended["attempt"]) == ("succeeded", 1 + (state == "running"))
    for graph in graphs:
        assert httpx.get(f"{url}/v1/graphs/{graph}").status_code == 200
    found = httpx.get(f"{url}/v1/jobs").json()["jobs"]
    assert {job["id"] for job in found} == set(jobs)


def test_a_copy_of_a_store_at_work_is_a_service_that_goes_on(tmp_path: Path) -> None:
    data, again, copy = tmp_path / "data", tmp_path / "again", tmp_path / "copy.db"
    for folder in (data, again):
        folder.mkdir()
    with server(data, planner=ENDLESS) as (url, _):
        jobs = begun(url)
        with Load(url) as load:
            before = list(load.acknowledged)
            status, said = db("backup", copy, "--data-dir", data)
            assert status == 0, said
            until(lambda: len(load.acknowledged) > len(before) + 3)  # nobody was kept waiting
        status, said = db("restore", copy, "--data-dir", data, "--replace")
        assert (status, "in use. End the service first" in said) == (2, True), said
    assert [own.name for own in tmp_path.iterdir()].count("copy.db") == 1
    assert not list(tmp_path.glob("copy.db-*"))
    assert copy.stat().st_mode & 0o777 == 0o600
    status, said = db("restore", copy, "--data-dir", again)
    assert (status, "1 jobs are queued again" in said) == (0, True), said
    with server(again, planner=TINY) as (url, _):
        check_goes_on(url, jobs, before)
        (ran,) = (job for job, state in jobs.items() if state == "running")
        events = httpx.get(f"{url}/v1/jobs/{ran}/events").text
        assert events.count('"state":"queued"') == 2
        assert events.count('"state":"running"') == 2
    status, said = db("restore", copy, "--data-dir", again)
    assert (status, "Use --replace to delete it" in said) == (2, True), said
    assert db("restore", copy, "--data-dir", again, "--replace")[0] == 0
    with server(again, planner=TINY) as (url, _):
        check_goes_on(url, jobs, before)


def test_a_copy_that_is_none_changes_nothing(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy.db"
    db = db_here
    assert "there is no store yet" in db("backup", copy, "--data-dir", data)[1]
    assert db("upgrade", "--data-dir", data)[0] == 0
    assert db("backup", copy, "--data-dir", data)[0] == 0
    before = (data / "meshwright.db").read_bytes()
    whole = copy.read_bytes()
    half, torn, empty = (tmp_path / name for name in ("half", "torn", "empty"))
    half.write_bytes(whole[: len(whole) // 2])
    torn.write_bytes(whole[:8192] + os.urandom(4096) + whole[12288:])
    with closing(sqlite3.connect(empty)) as connection:
        connection.execute("CREATE TABLE t (a)")
    for file, why in (
        (half, "damaged"),
        (torn, "damaged"),
        (empty, "not a copy of a store"),
        (tmp_path / "none", "there is no file"),
    ):
        status, said = db("restore", file, "--data-dir", data, "--replace")
        assert (status, why in said) == (2, True), said
        assert "is unchanged" in said
    assert (data / "meshwright.db").read_bytes() == before
    assert not list(data.glob(".meshwright-*"))
    status, said = db("backup", tmp_path / "nowhere" / "copy", "--data-dir", data)
    assert (status, "No such file" in said) == (2, True), said
    status, said = db("backup", copy, "--database", "postgresql://u:secret@h/d")
    assert (status, "pg_dump" in said, "secret" in said) == (2, True, False), said


def test_a_dump_of_postgresql_at_work_is_a_service_that_goes_on(
    postgresql: PostgreSQL, upgraded: str, tmp_path: Path
) -> None:
    name, again, dump = postgresql.create(upgraded), postgresql.create(), tmp_path / "dump"
    with _serving(postgresql.url(name), ENDLESS, tmp_path) as url:
        jobs = begun(url)
        with Load(url) as load:
            before = list(load.acknowledged)
            postgresql.run("pg_dump", "--format=custom", f"--file={dump}", name)
            status, said = db("requeue", "--database", postgresql.url(name))
            assert (status, "in use. End the service first" in said) == (2, True), said
    postgresql.run("pg_restore", "--exit-on-error", "--no-owner", f"--dbname={again}", dump)
    status, said = db("requeue", "--database", postgresql.url(again))
    assert (status, "1 jobs are queued again" in said) == (0, True), said
    with _serving(postgresql.url(again), TINY, tmp_path) as url:
        check_goes_on(url, jobs, before)
        (ran,) = (job for job, state in jobs.items() if state == "running")
        events = httpx.get(f"{url}/v1/jobs/{ran}/events").text
        assert events.count('"state":"queued"') == events.count('"state":"running"') == 2
        metrics = httpx.get(f"{url}/metrics").text
        assert 'meshwright_job_losses_total{kind="plan"} 0.0' in metrics
    for own in (name, again):
        postgresql.drop(own)


@contextmanager
def _serving(store: str, planner: str, folder: Path) -> Iterator[str]:
    given = {"MESHWRIGHT_PLANNER": planner, "MESHWRIGHT_LEASE_S": "30"}
    with program(folder, "serve", "--port", "0", "--database", store, **given) as (line, _):
        yield url_in(line)
