"""The main job with the real planner: from a real model to a stored plan."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from meshwright.cli import main
from meshwright_service.api.app import create_app
from meshwright_service.common.settings import Settings
from tests.service.conftest import ROOT, local
from tests.service.samples import REQUEST, TOPOLOGY, request

WAIT = {"Prefer": "wait=60"}


@pytest.fixture
def http(tmp_path: Path) -> Any:
    with local(create_app(Settings(data_dir=tmp_path, poll_s=0.02))) as client:
        yield client


def test_a_small_graph_becomes_a_proven_plan(http: TestClient) -> None:
    plan = http.post("/v1/plan", json=REQUEST, headers=WAIT).json()
    assert plan["search"]["outcome"] == "optimal"
    assert plan["search"]["lower_bound_ns"] <= plan["cost"]["objective_ns"]


def test_a_small_graph_becomes_a_plan_that_was_executed(http: TestClient) -> None:
    body = request(setup={"phase": "inference"}, verify=True)
    plan = http.post("/v1/plan", json=body, headers=WAIT)
    certificate = http.get(plan.headers["content-location"] + "/certificate").json()
    assert certificate["outcome"] == "verified", certificate
    assert certificate["tensors"] == 4


def test_a_plan_that_needs_gradients_without_a_loss_is_no_pass(http: TestClient) -> None:
    plan = http.post("/v1/plan", json=request(verify=True), headers=WAIT)
    certificate = http.get(plan.headers["content-location"] + "/certificate").json()
    assert certificate["outcome"] == "not verifiable"


def test_what_cannot_fit_is_named(http: TestClient) -> None:
    device = {**TOPOLOGY["device"], "memory_bytes": 16}
    body = request(topology={**TOPOLOGY, "device": device})
    job = http.post("/v1/plan", json=body, headers=WAIT).json()
    assert (job["state"], job["outcome"]) == ("succeeded", "infeasible")
    assert job["infeasible"]["constraint"] == "memory"


def test_infeasible_ends_the_command_with_its_own_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = ROOT / "examples" / "graphs" / "llama3-8b.json.gz"
    output = tmp_path / "plan.json"
    with pytest.raises(SystemExit) as ended:
        main(["plan", str(graph), "--topology", "v100-1x1", "-o", str(output)])
    assert ended.value.code == 1
    assert "no plan fits: memory: " in capsys.readouterr().err
    assert not output.exists()


def test_make_run_plans_a_real_model_and_ends(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "meshwright_service.cli.demo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "MESHWRIGHT_DATA_DIR": str(tmp_path), "COLUMNS": "140"},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "Plan llama3-8b" in ran.stdout
    assert "model.layers.*.self_attn.q_proj ×32" in ran.stdout
    assert re.search(r"this plan: http://127\.0\.0\.1:\d+/plans/plan_[0-9a-f]{64}\n", ran.stdout)
    assert (tmp_path / "meshwright.db").exists()


def test_make_run_stays_up_in_a_terminal_until_it_is_interrupted(tmp_path: Path) -> None:
    terminal, other = os.openpty()
    small = tmp_path / "graph.json"
    small.write_text(json.dumps(REQUEST["graph"]))
    command = [sys.executable, "-m", "meshwright_service.cli.demo", "--graph", str(small)]
    process = subprocess.Popen(
        command,
        stdin=other,
        stdout=other,
        stderr=other,
        cwd=ROOT,
        env={**os.environ, "MESHWRIGHT_DATA_DIR": str(tmp_path)},
        start_new_session=True,
    )
    os.close(other)
    said = b""
    while b"Ctrl-C ends it" not in said:
        said += os.read(terminal, 4096)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 0
    os.close(terminal)
