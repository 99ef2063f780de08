"""Searches for pipelines handed out to a real Dask: the same plan, whatever is lost there."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from meshwright_service.common.dask_address import Scheduler
from meshwright_service.common.settings import Settings
from meshwright_service.processes.dask_executor import dask_workers
from meshwright_solver.planning.build import planner_build
from meshwright_solver.planning.planner import plan
from tests.service.builds import another_build
from tests.service.conftest import ROOT, Serve, until
from tests.service.dask_cluster import Cluster, cluster
from tests.service.workers.test_search_processes import BODY, REQUEST, WAIT


@pytest.fixture
def store(tmp_path: Path) -> str:
    """One database is enough: Dask knows of none."""
    return f"sqlite:///{tmp_path / 'meshwright.db'}"


@pytest.fixture
def counted(count: Path) -> Path:
    """The file in which processes say what they do."""
    count.touch()
    return count


def pids(counted: Path) -> set[int]:
    """The processes that searched."""
    return {int(pid) for pid in counted.read_text().split()}


@pytest.fixture
def alone() -> dict[str, Any]:
    """The plan of one process."""
    found = plan(REQUEST).plan
    assert found is not None
    return found.to_dict()


def test_dasks_workers_find_the_same_plan(
    serve: Serve, tmp_path: Path, counted: Path, alone: dict[str, Any]
) -> None:
    with cluster(tmp_path) as dask:
        http = serve("noting", dask_scheduler=dask.address)
        assert http.post("/v1/plan", json=BODY, headers=WAIT).json() == alone
        assert set() < pids(counted) <= dask.pids()


@pytest.mark.parametrize("lost", ["a worker", "all workers", "the scheduler"])
def test_what_is_lost_of_dask_costs_no_job(
    serve: Serve, tmp_path: Path, counted: Path, alone: dict[str, Any], lost: str
) -> None:
    with cluster(tmp_path) as dask:
        http = serve("noting", dask_scheduler=dask.address)
        killing = threading.Thread(target=_kill, args=(dask, counted, lost))
        killing.start()
        found = http.post("/v1/plan", json=BODY, headers=WAIT).json()
        killing.join()
        assert found == alone
        (job,) = http.get("/v1/jobs").json()["jobs"]
        assert job["attempt"] == 1


def _kill(dask: Cluster, counted: Path, lost: str) -> None:
    """Once a search has begun there."""
    until(lambda: counted.read_text())
    match lost:
        case "a worker":
            dask.workers[0].kill()
        case "all workers":
            for worker in dask.workers:
                worker.kill()
        case "the scheduler":
            dask.scheduler.kill()


@pytest.mark.usefixtures("counted")
def test_a_scheduler_that_is_not_there_costs_no_job(serve: Serve, alone: dict[str, Any]) -> None:
    http = serve("noting", dask_scheduler="tcp://127.0.0.1:9")
    assert http.post("/v1/plan", json=BODY, headers=WAIT).json() == alone


def test_workers_of_another_build_are_refused_and_both_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sources, other = another_build(tmp_path)
    with (
        cluster(tmp_path, sources=sources) as dask,
        dask_workers(Scheduler(dask.address), 2, []) as executor,
    ):
        assert executor.submit(planner_build).result(timeout=120) == planner_build()
    assert f"runs the planner build {other}, the search the build {planner_build()}" in caplog.text


@pytest.mark.parametrize("grace_s", [5.0, 0.05], ids=["asked", "killed"])
def test_a_cancel_stops_what_runs_there(
    serve: Serve, tmp_path: Path, counted: Path, grace_s: float
) -> None:
    with cluster(tmp_path) as dask:
        http = serve("far", dask_scheduler=dask.address, cancel_grace_s=grace_s)
        job = _begun(http)
        until(lambda: counted.read_text().count("begun") == 2)
        assert http.post(f"/v1/jobs/{job}/cancel").json()["state"] == "cancelled"
        until(lambda: counted.read_text().count("ended") == 2)


def _begun(http: TestClient) -> str:
    return str(http.post("/v1/plan", json=BODY).json()["id"])


def test_beyond_this_machine_only_mutual_tls_is_spoken(
    serve: Serve, tmp_path: Path, counted: Path, alone: dict[str, Any]
) -> None:
    own, other = _certified(tmp_path / "own"), _certified(tmp_path / "other")
    words = ("--tls-ca-file", own["dask_authority"], "--tls-cert", own["dask_certificate"])
    with cluster(tmp_path, *words, "--tls-key", own["dask_key"]) as dask:
        assert dask.address.startswith("tls://")
        # a certificate of another authority is not listened to: the search goes on here, and ends
        # with its process, so that nothing of it is noted later
        apart = {"database_url": f"sqlite:///{tmp_path / 'strange.db'}"}  # jobs of its own
        strange = serve("noting", dask_scheduler=dask.address, **apart, **other)
        assert strange.post("/v1/plan", json=BODY, headers=WAIT).json() == alone
        assert pids(counted)
        assert not dask.pids() & pids(counted)
        counted.write_text("")
        http = serve("noting", dask_scheduler=dask.address, **own)
        assert http.post("/v1/plan?fresh=true", json=BODY, headers=WAIT).json() == alone
        assert set() < pids(counted) <= dask.pids()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dask_scheduler": "tcp://10.0.0.7:8786"}, "need mutual TLS"),
        ({"dask_scheduler": "tcp://scheduler:8786"}, "need mutual TLS"),
        ({"dask_scheduler": "tls://10.0.0.7:8786"}, "needs MESHWRIGHT_DASK_AUTHORITY"),
        (
            {"dask_scheduler": "tls://a:1", "dask_authority": "a", "dask_key": "k"},
            "needs MESHWRIGHT_DASK_AUTHORITY",
        ),
        ({"dask_scheduler": "127.0.0.1:8786"}, "is no address"),
        ({"dask_scheduler": "tcp://127.0.0.1"}, "is no address"),
    ],
)
def test_what_must_not_be_spoken_to_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Settings(**given)  # type: ignore[arg-type]  # fields are of several types


def _certified(folder: Path) -> dict[str, str]:
    """An authority of its own and a certificate by it, as the settings name them."""
    folder.mkdir()
    make = ["sh", str(ROOT / "deploy" / "certificates.sh"), str(folder)]
    subprocess.run(make, check=True, capture_output=True, timeout=120)
    names = {"authority": "authority.pem", "certificate": "own.pem", "key": "own.key"}
    assert sorted(names.values()) == sorted(own.name for own in folder.iterdir())
    return {f"dask_{name}": str(folder / file) for name, file in names.items()}
