"""Plans of an older build of the planner: stored, readable, and answered where a request asks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from meshwright_solver.planning.build import planner_build
from tests.service.builds import another_build, python_path
from tests.service.conftest import Serve, until
from tests.service.samples import REQUEST

PLANNER = "tests.service.planners:with_build"
WAIT = {"Prefer": "wait=60"}


@contextmanager
def older_service(sources: Path, data: Path) -> Iterator[str]:
    """The URL of a service that imports all packages from another folder."""
    command = [sys.executable, "-m", "meshwright_service.cli", "serve", "--port", "0"]
    environment = {
        **os.environ,
        "PYTHONPATH": python_path(sources),
        "MESHWRIGHT_PLANNER": PLANNER,
        "MESHWRIGHT_DATA_DIR": str(data),
    }
    with (
        (data / "errors").open("w") as errors,
        subprocess.Popen(
            command, cwd=data, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout is not None
        found = re.search(r"http://[0-9.]+:\d+", process.stdout.readline())
        try:
            assert found, (data / "errors").read_text()
            yield found[0]
        finally:
            process.terminate()


def ask(client: Any, **parameters: str) -> Any:
    answer = client.post("/v1/plan", json=REQUEST, headers=WAIT, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer


def test_an_upgraded_planner_plans_anew_and_answers_from_older_plans_where_asked(
    tmp_path: Path, serve: Serve
) -> None:
    sources, build = another_build(tmp_path)
    with older_service(sources, tmp_path) as url, httpx.Client(base_url=url, timeout=120) as old:
        answer = ask(old)
        older, older_at = answer.json(), answer.headers["Content-Location"]
    assert older["planner_build"] == build != planner_build()

    client = serve("with_build", data_dir=tmp_path)
    for age in ("3600", "1h", "0.5e6"):
        assert ask(client, max_age=age).json() == older
    assert ask(client, max_age="0s").json()["planner_build"] == planner_build()
    first = ask(client)
    newer = first.json()
    assert newer["planner_build"] == planner_build()
    assert newer["stages"] == older["stages"]
    # a plan of the running build precedes an older one
    assert ask(client, max_age="1h").json() == newer
    assert ask(client, max_age="1h", fresh="true").headers["Location"] != first.headers["Location"]
    assert client.get(older_at).json() == older
    assert client.get(first.headers["Content-Location"]).json() == newer


def test_an_older_plan_is_verified_where_a_request_with_max_age_asks(
    tmp_path: Path, serve: Serve
) -> None:
    sources, build = another_build(tmp_path)
    with older_service(sources, tmp_path) as url, httpx.Client(base_url=url, timeout=120) as old:
        ask(old)
    client = serve("with_build", data_dir=tmp_path)
    body = {**REQUEST, "verify": True}

    def certified() -> Any:
        answer = client.post("/v1/plan", json=body, headers=WAIT, params={"max_age": "1d"})
        return answer if "Link" in answer.headers else None

    assert until(certified).json()["planner_build"] == build


def test_durations_that_are_none_are_refused(serve: Serve) -> None:
    client = serve()
    for wrong in ("-1", "1y", "7 d", "d", "1.5h", "9999999999", "nan", "", "٣d"):
        assert client.post("/v1/plan", json=REQUEST, params={"max_age": wrong}).status_code == 422
