"""Searches for pipelines that use several processes: the same plan, and none is left behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from starlette.testclient import TestClient

from meshwright.schema import Pipeline
from meshwright_solver.planning.planner import plan
from tests.one_stage import one_stage_request
from tests.service.conftest import Serve, server, until
from tests.solver.layered import layered
from tests.solver.small_graphs import topology

REQUEST = one_stage_request(
    graph=layered(6, batch=64, width=512),
    topology=topology(4, 2, flops_per_s=1e11, bytes_per_s=1e9),
    pipeline=Pipeline(ranks=None),
)
BODY = {
    "graph": REQUEST.graph.to_dict(),
    "topology": REQUEST.topology.to_dict(),
    "recompute": {"policy": "none"},
}
WAIT = {"Prefer": "wait=60"}


def test_a_search_for_pipelines_uses_several_processes_and_finds_the_same_plan(
    serve: Serve, count: Path
) -> None:
    found = serve("noting", search_processes=2).post("/v1/plan", json=BODY, headers=WAIT).json()
    assert len(set(count.read_text().split())) == 2
    alone = plan(REQUEST).plan
    assert alone is not None
    assert found == alone.to_dict()


@pytest.mark.parametrize(("pipeline", "processes"), [(1, 2), (None, 1)])
def test_one_stage_is_searched_in_one_process_and_so_is_all_if_one_is_set(
    serve: Serve, count: Path, pipeline: int | None, processes: int
) -> None:
    body = {**BODY, "pipeline": {"ranks": pipeline}}
    http = serve("noting", search_processes=processes)
    assert "stages" in http.post("/v1/plan", json=body, headers=WAIT).json()
    assert not count.exists()


def test_a_cancel_ends_all_processes_of_a_search(serve: Serve) -> None:
    http = serve("crowded", search_processes=2, cancel_grace_s=0.1)
    job = http.post("/v1/plan", json=BODY).json()["id"]
    search = _search(http, job)
    until(lambda: len(_group(search)) >= 3)
    http.post(f"/v1/jobs/{job}/cancel")
    until(lambda: not _group(search))


def test_a_server_that_is_killed_leaves_no_process_of_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MESHWRIGHT_SEARCH_PROCESSES", "2")
    with (
        server(tmp_path, planner="tests.service.planners:crowded") as (url, pid),
        httpx.Client(base_url=url) as http,
    ):
        search = _search(http, http.post("/v1/plan", json=BODY).json()["id"])
        until(lambda: len(_group(search)) >= 3)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not _group(search))


def _search(http: TestClient | httpx.Client, job: str) -> int:
    """The process that searches, once it has reported."""

    def reported() -> int:
        progress: dict[str, Any] = http.get(f"/v1/jobs/{job}").json().get("progress") or {}
        return int(progress.get("phase", "").removeprefix("pid ") or 0)

    return int(until(reported))


def _group(leader: int) -> list[int]:
    """The processes of a group that run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == leader and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found
