"""Ctrl-C while `meshwright plan` searches, in a process of its own."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from meshwright.planfile import read_plan
from tests.service.conftest import ROOT

COMMAND = (sys.executable, "-m", "meshwright.cli", "plan")
RUNS = "the search runs"  # say the planners of the tests
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(graph_file: Path, topology_file: Path, tmp_path: Path) -> Start:
    """Starts `meshwright plan OPTIONS…` with one of the tests' planners installed."""

    def run(
        planner: str, *options: str, stderr: int | IO[str] = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        installed = tmp_path / "installed" / "planner_of_a_test-1.dist-info"
        installed.mkdir(parents=True)
        (installed / "METADATA").write_text("Name: planner-of-a-test\nVersion: 1\n")
        (installed / "entry_points.txt").write_text(
            f"[meshwright.planner]\ndefault = tests.service.planners:{planner}\n"
        )
        path = os.pathsep.join((str(installed.parent), str(ROOT)))
        return subprocess.Popen(
            [*COMMAND, str(graph_file), "--topology", str(topology_file), *options],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "140", "TERM": "xterm"},
        )

    return run


def test_ctrl_c_gives_the_best_plan_so_far(start: Start, tmp_path: Path) -> None:
    output = tmp_path / "plan.json"
    process = start("improving", "-o", str(output))
    interrupt(process)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "the search was ended early; this is the best plan until then" in err
    assert "feasible: " in out
    assert "search  improving found 100 ns after" in out
    file = read_plan(output)
    assert file.plan.cost.objective_ns == file.plan.search.history[-1].cost_ns
    assert len(file.seconds) == len(file.plan.search.history)


def test_ctrl_c_before_there_is_a_plan_says_so(start: Start, tmp_path: Path) -> None:
    output = tmp_path / "plan.json"
    process = start("fruitless", "-o", str(output))
    interrupt(process)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, "")
    assert "meshwright: the search was ended before it had found a plan" in err
    assert "no plan fits" not in err
    assert not output.exists()


def test_a_second_ctrl_c_ends_at_once(start: Start) -> None:
    terminal, other = os.openpty()
    with os.fdopen(other, "w") as stderr:
        process = start("endless", stderr=stderr)
    read_until(terminal, RUNS)
    process.send_signal(signal.SIGINT)
    read_until(terminal, "ending the search; Ctrl-C again ends at once")
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    os.close(terminal)
    assert (process.returncode, out) == (130, "")


def interrupt(process: subprocess.Popen[str]) -> None:
    """Ctrl-C once it searches."""
    assert process.stderr is not None
    line = process.stderr.readline()
    assert RUNS in line, line + process.stderr.read()
    process.send_signal(signal.SIGINT)


def read_until(terminal: int, words: str) -> None:
    said = ""
    while words not in said:
        assert select.select([terminal], [], [], 30)[0], said
        said = (said + os.read(terminal, 4096).decode(errors="replace"))[-9999:]
