"""`meshwright simulate`, in this process and through a service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meshwright.planfile import PlanFile, read_plan
from meshwright.plugins import entry_points
from meshwright.schema.simulation import Simulation
from tests.clients.conftest import Run


@pytest.fixture
def plan_file(run: Run, graph_file: Path, tmp_path: Path) -> Path:
    file = tmp_path / "plan.json"
    assert run("plan", graph_file, "--topology", "h100-2x4", "-o", file).code == 0
    return file


def test_it_says_how_long_a_step_takes_and_what_is_waited_for(run: Run, plan_file: Path) -> None:
    ran = run("simulate", plan_file)
    assert ran.code == 0, ran.err
    for word in ("simulated", "the plan says", "bubble", "gradient", "saved"):
        assert word in ran.out, word


def test_a_step_without_work_takes_no_time(run: Run, tmp_path: Path) -> None:
    graph, file = tmp_path / "graph.json", tmp_path / "plan.json"
    x = {"name": "x", "shape": [8], "dtype": "float32", "role": "input"}
    graph.write_text(json.dumps({"tensors": [x], "ops": [], "outputs": ["x"]}))
    assert run("plan", graph, "--topology", "h100-1x8", "-o", file).code == 0
    ran = run("simulate", file)
    assert ran.code == 0, ran.err
    assert "step 0 simulated" in ran.out


def test_it_writes_numbers_and_a_trace(run: Run, plan_file: Path, tmp_path: Path) -> None:
    numbers, trace = tmp_path / "numbers.json", tmp_path / "trace.json"
    ran = run("simulate", plan_file, "-o", numbers, "--trace", trace)
    assert ran.code == 0, ran.err
    assert f"wrote {numbers}" in ran.err
    made = Simulation.from_json(numbers.read_text())
    assert made.plan == read_plan(plan_file).plan.id
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["ph"] for event in events} == {"X", "M", "C"}


def test_a_bare_plan_is_not_enough(run: Run, plan_file: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.json"
    PlanFile(plan=read_plan(plan_file).plan).write(bare)
    ran = run("simulate", bare)
    assert ran.code == 2
    assert "needs its graph and topology" in ran.err


def test_without_the_server_distribution_it_says_what_to_install(
    run: Run, plan_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_points, "entry_points", lambda **_: [])
    ran = run("simulate", plan_file)
    assert ran.code == 3
    assert "no simulator is installed here" in ran.err
