"""The commands, in this process and against a real service."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meshwright.planfile import read_plan
from meshwright.plugins import entry_points, planner
from meshwright.schema import Answer, Graph, Plan, Request, Unavailable
from tests.clients.conftest import Run
from tests.service import planners
from tests.service.samples import GRAPH


def test_plan_prints_a_plan(run: Run, graph_file: Path, topology_file: Path) -> None:
    ran = run("plan", graph_file, "--topology", topology_file)
    assert ran.code == 0, ran.err
    for word in ("two layers on two by four", "mesh", "memory", "step", "proof", "Strategies"):
        assert word in ran.out


def test_plan_writes_a_file_that_show_reads(run: Run, graph_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "plan.json"
    assert run("plan", graph_file, "--topology", "h100-1x4", "-o", output).code == 0
    file = read_plan(output)
    assert file.graph == Graph.from_dict(GRAPH)
    assert file.topology is not None
    assert file.plan.topology == file.topology.id
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    shown = run("show", output)
    assert shown.code == 0
    assert "matmul" in shown.out
    assert "layers.0.linear" in run("show", output, "--ops", "*.0.*").out
    assert "Groups" in run("show", output, "--groups").out
    missed = run("show", output, "--ops", "nothing*")
    assert missed.code == 2
    assert "'nothing*' matches no op; ops are named like 'layers.0.linear'" in missed.err


def test_show_reads_a_bare_plan_too(run: Run, tmp_path: Path, topology_file: Path) -> None:
    request = Request.from_dict({"graph": GRAPH, "topology": json.loads(topology_file.read_text())})
    answer = planners.tiny(request)
    assert answer.plan is not None
    path = tmp_path / "bare.json"
    path.write_text(answer.plan.to_json())
    assert "replicated" in run("show", path).out


def test_the_command_line_says_what_is_asked(
    run: Run, graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Request] = []

    def listening(request: Request, report: Any = None, stop: Any = None) -> Answer:
        del stop
        asked.append(request)
        return planners.tiny(request, report)

    _install(monkeypatch, listening)
    setup = tmp_path / "setup.json"
    setup.write_text('{"phase": "inference", "symbols": {"seq": 4}}')
    ran = run(
        "plan", graph_file, "--topology", "h100-2x4", "--setup", setup, "--batch", "64",
        "--seq", "32", "--microbatches", "4", "--uneven", "pad", "--budget", "2.5", "--axes", "2",
        "--sequence-order", "zigzag",
        "--pin", "layers.0.*:b=node,n=gpu_0+gpu_1", "--pin", "layers.1.*:",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    request = asked[0]
    assert request.setup.phase == "inference"
    assert (request.setup.global_batch, request.setup.symbols["seq"]) == (64, 32)
    assert (request.setup.microbatches, request.setup.uneven) == (4, "pad")
    assert request.setup.sequence_order == "zigzag"
    assert (request.budget.seconds, request.budget.max_axes) == (2.5, 2)
    assert [pin.strategy for pin in request.pins] == [{"b": ("node",), "n": ("gpu_0", "gpu_1")}, {}]


def test_what_plans_may_be_reaches_the_planner(
    run: Run, graph_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def listening(request: Request, *rest: Any) -> Answer:
        asked.append(request)
        return planners.tiny(request, *rest)

    _install(monkeypatch, listening)
    ran = run(
        "plan", graph_file, "--topology", "h100-2x4", "--solver", "semi_auto", "--rest",
        "propagate", "--module", "layers.0", "--fully-use-devices", "--elementwise-follow",
        "--slice-alignment", "16", "--no-all-to-all", "--dataset", "data_parallel",
        "--phase", "inference", "--gradients", "sum",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    request = asked[0]
    assert (request.solver, request.rest, request.module) == ("semi_auto", "propagate", "layers.0")
    own = request.constraints
    assert (own.fully_use_devices, own.elementwise_follow, own.slice_alignment) == (True, True, 16)
    setup = request.setup
    assert (setup.allow_all_to_all, setup.dataset) == (False, "data_parallel")
    assert (setup.phase, setup.gradients) == ("inference", "sum")


def test_a_plan_can_be_verified_at_once_and_its_file_says_so(
    run: Run, graph_file: Path, tmp_path: Path, files: Callable[[str, Any], Path]
) -> None:
    output, setup = tmp_path / "plan.json", files("setup.json", {"phase": "inference"})
    ask = ("plan", graph_file, "--topology", "h100-1x4", "--setup", setup, "-o", output)
    assert "execution" not in run(*ask).out
    ran = run(*ask, "--verify")
    assert ran.code == 0, ran.err
    # the graph's inputs apart: two parameters, two results; inference has no gradients
    assert "execution  verified: 4 tensors and 0 gradients equal the unsharded run" in ran.out
    certificate = read_plan(output).certificate
    assert certificate is not None
    assert certificate.outcome == "verified"
    assert "verified: 4 tensors" in run("show", output).out
    assert "verified: 4 tensors" in run("verify", output).out


def test_what_is_not_verified_ends_with_a_code_of_its_own(
    run: Run, graph_file: Path, tmp_path: Path
) -> None:
    output = tmp_path / "plan.json"
    ask = ("plan", graph_file, "--topology", "h100-1x4", "-o", output)
    ran = run(*ask, "--verify")
    assert ran.code == 1
    assert "not verifiable: a training graph without a loss has no gradients" in ran.out
    assert "not verifiable: " in run("show", output).out


def test_a_planner_that_flatters_itself_is_found_out(
    run: Run, graph_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(monkeypatch, planners.tiny)
    ran = run("plan", graph_file, "--topology", "h100-1x4", "--verify")
    assert ran.code == 1
    assert "failed: " in ran.out


def test_infeasible_has_a_code_of_its_own(
    run: Run, graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(monkeypatch, planners.infeasible)
    ran = run("plan", graph_file, "--topology", "h100-1x8", "-o", tmp_path / "plan.json")
    assert ran.code == 1
    assert "memory: too big" in ran.err
    assert "needed 2 KiB, available 1 KiB" in ran.err
    assert not (tmp_path / "plan.json").exists()


def test_without_a_planner_it_says_what_would_do(
    run: Run, graph_file: Path, topology_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_points, "entry_points", lambda **_: ())
    for topology in (str(topology_file), "h100-1x8"):
        ran = run("plan", graph_file, "--topology", topology)
        assert ran.code == 3
        assert "meshwright-server" in ran.err
        assert "--server" in ran.err


def test_without_a_service_it_says_so(run: Run) -> None:
    ran = run("show", "plan_0", "--server", "nonsense")
    assert ran.code == 3
    assert "is not the URL of a service" in ran.err


def test_topologies_lists_the_presets(run: Run) -> None:
    ran = run("topologies", "--example", "2x4")
    assert ran.code == 0
    assert "h100-2x4" in ran.out
    assert "GiB" in ran.out


def test_validate_names_the_kind_and_the_id(
    run: Run, graph_file: Path, topology_file: Path, files: Callable[[str, Any], Path]
) -> None:
    setup = files("setup.json", {"phase": "inference"})
    for path, word in ((graph_file, "graph"), (topology_file, "topology"), (setup, "setup")):
        ran = run("validate", path)
        assert ran.code == 0
        assert f"a valid {word}, " in ran.out


@pytest.mark.parametrize("command", [("hf", "config.json", "--seq", "8"), ("torch", "a:b")])
def test_capture_without_a_framework_says_what_would_do(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, "meshwright.capture", None)
    ran = run("capture", *command, "--batch", "2", "-o", tmp_path / "graph.json")
    assert ran.code == 3
    assert "meshwright[capture]" in ran.err


def test_the_script_ends_without_a_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "meshwright.cli", "validate", "nowhere.json"]
    ended = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("meshwright: The input is not valid: nowhere.json")
    assert ended.stderr.count("\n") == 1


def test_a_plan_file_must_belong_together(run: Run, graph_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "plan.json"
    run("plan", graph_file, "--topology", "h100-1x4", "-o", output)
    torn = json.loads(output.read_text())
    torn["graph"]["name"] = "another"
    output.write_text(json.dumps(torn))
    ran = run("show", output)
    assert ran.code == 2
    assert "was made for the graph" in ran.err
    assert Plan.prefix in ran.err or "graph_" in ran.err


def test_a_certificate_must_be_that_of_the_plan(run: Run, graph_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "plan.json"
    run("plan", graph_file, "--topology", "h100-1x4", "-o", output, "--verify")
    torn = json.loads(output.read_text())
    torn["certificate"]["plan"] = "plan_0"
    output.write_text(json.dumps(torn))
    ran = run("show", output)
    assert ran.code == 2
    assert "the certificate is of the plan plan_0" in ran.err


def _install(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Answer]) -> None:
    """Put a planner where entry points are found."""

    class Point:
        module = function.__module__

        def load(self) -> Callable[..., Answer]:
            return function

    real = entry_points.entry_points

    def found(*, group: str, name: str) -> Any:
        return [Point()] if group == "meshwright.planner" else real(group=group, name=name)

    monkeypatch.setattr(entry_points, "entry_points", found)


def test_unavailable_is_what_a_missing_planner_raises() -> None:
    with pytest.raises(Unavailable, match="no planner"):
        planner.find_planner("no such name")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--fresh",), "is for a service"),
        (("--max-age", "7d"), "is for a service"),
        (("--max-age", "7d", "--fresh", "--server", "http://127.0.0.1:9"), "excludes --max-age"),
        (("--max-age", "soon", "--server", "http://127.0.0.1:9"), "is not a duration"),
        (("--max-age", "-1", "--server", "http://127.0.0.1:9"), "is not a duration"),
        (("--max-age", "nan", "--server", "http://127.0.0.1:9"), "is not a duration"),
    ],
)
def test_options_of_stored_plans_are_for_a_service(
    run: Run, graph_file: Path, topology_file: Path, options: tuple[str, ...], reason: str
) -> None:
    ran = run("plan", graph_file, "--topology", topology_file, *options)
    assert ran.code == 2
    assert reason in " ".join(ran.err.split())
