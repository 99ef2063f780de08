"""`meshwright solve`: cost graphs of other compilers."""

from __future__ import annotations

import gzip
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from meshwright.render.cost_graph_solution import show_cost, show_progress
from meshwright.schema.cost_graph import CostGraphSolution
from tests.clients.conftest import Run
from tests.service.conftest import ROOT
from tests.solver.cost_graph_files import CONTEST_EXAMPLE, TWO_NODES

LAYERS = ROOT / "examples" / "cost-graphs" / "layers-12.json"
Files = Callable[[str, Any], Path]


@pytest.fixture
def example(files: Files) -> Path:
    return files("example.json", {"problem": CONTEST_EXAMPLE})


def test_the_solution_is_printed(run: Run, example: Path) -> None:
    ran = run("solve", example, "--engine", "exact")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].startswith("status  optimal (exact, ")
    # worked by hand in tests/solver/cost_graph_files.py
    assert lines[1:] == [
        "cost    445",
        "bound   445 (gap 0 %)",
        "usage   50 of 50, first at time 50",
        "choice  [0, 0, 2, 1, 0]",
    ]


def test_the_solution_is_written(run: Run, example: Path, tmp_path: Path) -> None:
    output = tmp_path / "solution.json.gz"
    ran = run("solve", example, "--engine", "exact", "--seed", "7", "-o", output)
    assert ran.code == 0
    assert f"wrote {output}" in ran.err
    solution = CostGraphSolution.from_json(gzip.decompress(output.read_bytes()))
    assert solution == CostGraphSolution(
        name="example",
        status="optimal",
        choice=(0, 0, 2, 1, 0),
        cost=445.0,
        lower_bound=445.0,
        gap=0.0,
        peak_usage=50.0,
        peak_time=50,
        usage_limit=50.0,
        engines=("exact",),
        seed=7,
    )
    ran = run("validate", output)
    assert f"a valid solution of a cost graph, {solution.id}" in ran.out
    assert "a valid cost graph, costgraph_" in run("validate", example).out


@pytest.mark.parametrize(
    ("name", "packed"),
    [("e.json.gz", gzip.compress), ("e.json.zst", zstandard.compress), ("e.json", bytes)],
)
def test_compressed_files_are_read(
    run: Run, tmp_path: Path, name: str, packed: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / name
    path.write_bytes(packed(json.dumps({"problem": CONTEST_EXAMPLE}).encode()))
    ran = run("solve", path, "--engine", "exact")
    assert ran.code == 0
    assert "cost    445\n" in ran.out


def test_an_infeasible_graph_ends_with_1(run: Run, files: Files, tmp_path: Path) -> None:
    path, output = (
        files("g.json", {"problem": {**TWO_NODES, "usage_limit": 2}}),
        tmp_path / "o.json",
    )
    ran = run("solve", path, "-o", output)
    assert (ran.code, ran.out) == (1, "")
    assert "meshwright: the cost graph is infeasible: every choice takes" in ran.err
    assert not output.exists()


def test_no_choice_in_time_ends_with_1(run: Run) -> None:
    ran = run("solve", LAYERS, "--engine", "exact", "--seconds", "0")
    assert (ran.code, ran.out) == (1, "")
    assert (
        "no choice within the limit was found: stopped after 0.0 s. Give it more --sec" in ran.err
    )


@pytest.mark.parametrize(
    ("problem", "options", "said"),
    [
        (CONTEST_EXAMPLE, ("--engine", "luck"), "none of auto, elimination, message_passing, lag"),
        (CONTEST_EXAMPLE, ("--engine", "elimination"), "Use an engine that knows lifetimes"),
        (CONTEST_EXAMPLE, ("--seconds", "-1"), "--seconds"),
        (CONTEST_EXAMPLE, ("--seconds", "nan"), "--seconds"),
        (CONTEST_EXAMPLE, ("--seed", "-1"), "--seed"),
        ({**TWO_NODES, "usage_limit": -1}, (), "g.json: usage_limit: Input should be greater"),
        ({**TWO_NODES, "edges": {"nodes": [[0, 9]], "costs": [[1]]}}, (), "g.json: edge 0: there"),
        ([], (), "g.json: problem: Input should be an object"),
    ],
)
def test_bad_input_ends_with_2(
    run: Run, files: Files, problem: Any, options: tuple[str, ...], said: str
) -> None:
    ran = run("solve", files("g.json", {"problem": problem}), *options)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_of_a_large_choice_the_first_strategies_are_printed(run: Run, files: Files) -> None:
    count = 150
    nodes = {"intervals": [[0, 1]] * count, "costs": [[3, 1]] * count, "usages": [[0, 0]] * count}
    ran = run("solve", files("g.json", {"problem": {"nodes": nodes}}))
    assert "cost    150\n" in ran.out
    assert ran.out.splitlines()[-1] == (
        f"choice  [{'1, ' * 100}...]: 150 nodes; -o FILE writes all"
    )
    assert "usage   0 of no limit" in ran.out


def test_ctrl_c_gives_the_best_choice_so_far(tmp_path: Path) -> None:
    output = tmp_path / "solution.json"
    process, terminal = started(LAYERS, "--engine", "lagrangian", "--seconds", "100", "-o", output)
    read_until(terminal, "best 4")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    os.close(terminal)
    assert process.returncode == 0
    assert "status  feasible (lagrangian, " in out or "status  optimal" in out
    solution = CostGraphSolution.from_json(output.read_bytes())
    assert solution.choice is not None
    assert solution.cost is not None
    assert f"cost    {solution.cost:,.0f}\n" in out


def test_ctrl_c_before_there_is_a_choice_ends_with_130(tmp_path: Path) -> None:
    installed = tmp_path / "installed" / "solver_of_a_test-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Name: solver-of-a-test\nVersion: 1\n")
    (installed / "entry_points.txt").write_text(
        "[meshwright.cost_graph_solver]\ndefault = tests.clients.test_solve:fruitless\n"
    )
    process, terminal = started(LAYERS, path=os.pathsep.join((str(installed.parent), str(ROOT))))
    read_until(terminal, "lagrangian")
    process.send_signal(signal.SIGINT)
    said = read_until(terminal, "ended before it had found a choice")
    out, _ = process.communicate(timeout=120)
    os.close(terminal)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in said


def fruitless(file: Any, *, report: Any, stop: Callable[[], bool], **_: Any) -> CostGraphSolution:
    """A solver that finds nothing until it is stopped."""
    import time

    from meshwright.schema.cost_graph import CostGraphProgress

    report(CostGraphProgress(engine="lagrangian"))
    while not stop():
        time.sleep(0.01)
    return CostGraphSolution(name=file.problem.name, status="unknown", notes=("stopped",))


def started(*arguments: str | Path, path: str | None = None) -> tuple[subprocess.Popen[str], int]:
    """`meshwright solve`, its standard error on a terminal, where it shows its progress."""
    terminal, other = pty.openpty()
    environment = {**os.environ, "COLUMNS": "140", "TERM": "xterm"}
    if path is not None:
        environment["PYTHONPATH"] = path
    process = subprocess.Popen(
        [sys.executable, "-m", "meshwright.cli", "solve", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=other,
        text=True,
        env=environment,
    )
    os.close(other)
    return process, terminal


def read_until(terminal: int, words: str) -> str:
    said = ""
    while words not in said:
        said += os.read(terminal, 4096).decode(errors="replace")
    return said


@pytest.mark.parametrize(
    ("cost", "bound", "said"),
    [
        (None, None, ""),
        (1234567.0, None, "best 1,234,567"),
        (200.0, 150.0, "best 200, bound 150, gap 25.0 %"),  # 50 of 200
        (-100.0, -125.5, "best -100, bound -125.5, gap 25.5 %"),
        (0.0, -1.0, "best 0, bound -1"),
        (None, 6103400000.4, "bound 6,103,400,000"),
    ],
)
def test_progress_names_the_best_the_bound_and_the_gap(
    cost: float | None, bound: float | None, said: str
) -> None:
    assert show_progress(cost, bound) == said


def test_costs_are_shown_with_all_digits_before_the_point() -> None:
    assert [show_cost(cost) for cost in (217039.0, 0.125, 1234567.8)] == [
        "217,039", "0.125", "1,234,568",
    ]  # fmt: skip
