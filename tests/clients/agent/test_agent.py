"""Processes measure over gloo, a calibration is made of it, and a plan with that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from meshwright.agent.launcher import place_of, run_here
from meshwright.planfile import read_plan
from meshwright.schema import Calibration, Topology, Unavailable
from meshwright.schema.samples import Samples
from tests.clients.conftest import Run

SMALL = ("--largest", "256", "--largest-bytes", "1024")
PATIENCE_S = 120


def begin(output: Path, count: int, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "meshwright.cli", "agent", "-o", str(output)]
    return subprocess.Popen(
        [*command, "--processes", str(count), *SMALL, *more],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True,
    )  # fmt: skip


def measured(output: Path, count: int, *more: str) -> Samples:
    agent = begin(output, count, *more)
    out, err = agent.communicate(timeout=PATIENCE_S)
    assert agent.returncode == 0, err
    assert "over gloo" in out
    return Samples.from_json(output.read_bytes())


@pytest.fixture(scope="module")
def samples_of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("agent") / "samples.json"
    measured(path, 2, "--seconds", "5")
    return path


@pytest.mark.parametrize("count", [4, pytest.param(8, marks=pytest.mark.long)])
def test_several_processes_measure_together(tmp_path: Path, count: int) -> None:
    found = measured(tmp_path / "s.json", count, "--seconds", "600" if count == 4 else "1")
    assert found.backend == "gloo"
    assert found.topology.device_count == count
    if count == 4:
        assert found.complete
        assert {own.kind for own in found.kernels} == {
            "matmul",
            "memory",
            "launch",
            "attention",
        } - {
            "attention"  # the smallest is larger than asked
        }
        assert {own.extents for own in found.collectives} == {(2,), (4,)}
        assert not (tmp_path / "s.json.partial").exists()


def test_samples_become_a_calibration_and_a_plan(
    run: Run, samples_of_two: Path, tmp_path: Path, graph_file: Path
) -> None:
    calibration, topology = tmp_path / "c.json", tmp_path / "t.json"
    ran = run("fit", samples_of_two, "-o", calibration, "--topology-output", topology)
    assert ran.code == 0, ran.err
    assert "median error" in ran.out
    own = Calibration.from_json(calibration.read_bytes())
    assert own.fitted is not None
    assert own.fitted.samples == Samples.from_json(samples_of_two.read_bytes()).id
    plan = tmp_path / "plan.json"
    given = ("--topology", topology, "--calibration", calibration, "-o", plan)
    ran = run("plan", graph_file, *given)
    assert ran.code == 0, ran.err
    made = read_plan(plan)
    assert made.plan.calibration == own.id
    assert made.calibration == own
    assert made.topology == Topology.from_json(topology.read_bytes())


def test_a_killed_process_leaves_nothing_but_what_it_measured(tmp_path: Path) -> None:
    output = tmp_path / "s.json"
    journal = tmp_path / "s.json.partial"
    agent = begin(output, 2, "--seconds", "600")
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not journal.exists() or journal.read_bytes().count(b"\n") < 4:
            assert agent.poll() is None, agent.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
        os.kill(int(children[-1]), signal.SIGKILL)
        _, err = agent.communicate(timeout=PATIENCE_S)
    finally:
        if agent.poll() is None:
            os.killpg(agent.pid, signal.SIGKILL)
    assert agent.returncode != 0
    assert not output.exists()
    assert "ended with status -9: killed" in " ".join(err.split())
    assert "Traceback" not in err
    kept = journal.read_bytes().count(b"\n")
    found = measured(output, 2, "--seconds", "600")
    assert found.complete
    assert len(found.kernels) + len(found.collectives) >= kept - 1


def test_processes_end_with_whoever_began_them(tmp_path: Path) -> None:
    output = tmp_path / "s.json"
    agent = begin(output, 2, "--seconds", "600")
    journal = tmp_path / "s.json.partial"
    deadline = time.monotonic() + PATIENCE_S
    try:
        while not journal.exists():
            assert agent.poll() is None, agent.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        listed = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
        agent.kill()
        agent.wait(timeout=PATIENCE_S)
        while any(running(int(child)) for child in listed):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(agent.pid, signal.SIGKILL)
        agent.communicate()
    assert len(listed) == 2
    assert not output.exists()


def running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_process_that_fails_is_named() -> None:
    script = "import os, sys, time; rank = os.environ['RANK']\n"
    script += "if rank == '1': sys.exit('no such device')\ntime.sleep(60)"
    started = time.monotonic()
    with pytest.raises(Unavailable, match=r"process 1 of 2 .* no such device"):
        run_here(["-c", script], 2)
    assert time.monotonic() - started < 30


def test_launchers_say_which_process_this_is() -> None:
    assert place_of({}) is None
    by_torchrun = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}
    by_mpirun = {
        "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4",
    }  # fmt: skip
    by_slurm = {"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NTASKS": "4"}
    for environment in (by_torchrun, by_mpirun, by_slurm):
        found = place_of(environment)
        assert found is not None
        assert (found.rank, found.local_rank, found.world_size) == (3, 1, 4)


def test_without_an_address_the_command_says_what_is_missing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    ran = run("agent", "-o", tmp_path / "s.json")
    assert ran.code == 2
    assert "MASTER_ADDR is not set" in ran.err
