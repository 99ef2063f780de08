"""What agents measure, on its shelf, and what comes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from meshwright.client import Client
from meshwright.schema import Calibration, Graph, Topology
from meshwright.schema.residuals import Residuals
from meshwright.schema.samples import Samples
from meshwright_costmodel.fitting import fit_calibration
from meshwright_costmodel.residuals import residuals_of
from tests.costmodel.test_fitting import samples
from tests.service.conftest import Serve, server
from tests.service.samples import GRAPH


def test_samples_are_stored_once_with_what_comes_of_them(serve: Serve) -> None:
    http = serve(workers=0)
    own = samples()
    first = http.post("/v1/samples", json=own.to_dict())
    again = http.post("/v1/samples", json=own.to_dict())
    assert (first.status_code, again.status_code) == (201, 200)
    made = first.json()
    assert again.json() == made
    assert first.headers["location"] == f"/v1/samples/{own.id}"
    assert Samples.from_json(http.get(f"/v1/samples/{own.id}").content) == own
    topology = Topology.from_json(http.get(f"/v1/topologies/{made['topology']}").content)
    assert topology == own.topology
    calibration = Calibration.from_json(http.get(f"/v1/calibrations/{made['calibration']}").content)
    assert calibration.fitted is not None
    assert calibration.fitted.samples == own.id
    (entry,) = http.get("/v1/samples").json()["samples"]
    assert entry["summary"]["backend"] == "nccl"
    (entry,) = http.get("/v1/calibrations").json()["calibrations"]
    assert entry["summary"]["median_error"] == made["median_error"]


def test_samples_that_are_wrong_leave_nothing(serve: Serve) -> None:
    http = serve(workers=0)
    nothing = {**samples().to_dict(), "kernels": [], "collectives": []}
    broken = samples().to_dict()
    broken["kernels"][3]["ns"] = -1
    for body, pointer in ((nothing, None), (broken, "/kernels/3/ns")):
        answer = http.post("/v1/samples", json=body)
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        if pointer:
            assert answer.json()["errors"][0]["pointer"] == pointer
    for shelf in ("samples", "calibrations", "topologies"):
        assert http.get(f"/v1/{shelf}").json()[shelf] == []


def test_a_calibration_that_nobody_stored_is_not_planned_with(serve: Serve) -> None:
    body = {"graph": GRAPH, "topology": "h100-1x4", "calibration": "cal_0"}
    answer = serve(workers=0).post("/v1/plan", json=body)
    assert answer.status_code == 404
    assert answer.json()["errors"][0]["pointer"] == "/calibration"


def test_an_agent_s_samples_become_a_plan_s_calibration(tmp_path: Path) -> None:
    output = tmp_path / "samples.json"
    with server(tmp_path, planner="default") as (url, _), Client(url) as client:
        command = [sys.executable, "-m", "meshwright.cli", "agent", "-o", str(output)]
        sizes = ["--seconds", "5", "--largest", "256", "--largest-bytes", "4096"]
        ran = subprocess.run(
            [*command, *sizes, "--processes", "2", "--server", url],
            capture_output=True, text=True, timeout=120, check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        assert f"stored at {url}" in ran.stdout
        (entry,) = client.calibrations()
        own = Samples.from_json(output.read_bytes())
        assert client.get_calibration(entry["id"]).fitted is not None
        answer = client.plan(Graph.from_dict(GRAPH), own.topology.id, calibration=entry["id"])
        assert answer.plan is not None
        assert answer.plan.calibration == entry["id"]
        assert answer.plan.topology == own.topology.id


def test_residuals_of_a_calibration_are_those_of_its_samples(serve: Serve) -> None:
    http = serve(workers=0)
    own = samples()
    made = http.post("/v1/samples", json=own.to_dict()).json()
    calibration = fit_calibration(own)
    answer = http.get(f"/v1/calibrations/{made['calibration']}/residuals")
    assert Residuals.from_json(answer.content) == residuals_of(calibration, own)
    bare = calibration.model_copy(update={"fitted": None})
    http.post("/v1/calibrations", json=bare.to_dict())
    nothing = http.get(f"/v1/calibrations/{bare.id}/residuals").json()
    assert nothing["residuals"] == []
    assert http.get("/v1/calibrations/cal_0/residuals").status_code == 404
