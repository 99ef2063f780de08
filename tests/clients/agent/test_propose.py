"""`meshwright agent --propose`: what the machine says, with commands in the place of drivers'."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.clients.agent.machine.test_machine import DATA
from tests.clients.conftest import Run


def driver(folder: Path, name: str, answers: dict[str, str]) -> None:
    """A command that prints a recorded file for each of some arguments."""
    cases = "\n".join(f"'{asked}'*) cat '{DATA / file}';;" for asked, file in answers.items())
    script = folder / name
    script.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}\n*) exit 1;;\nesac\n')
    script.chmod(0o755)


@pytest.fixture
def drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_gpus_on_nvswitch(run: Run, drivers: Path) -> None:
    answers = {"--query-gpu=": "h200-8.cards.csv", "topo -m": "nv18-8.topo.txt"}
    driver(drivers, "nvidia-smi", answers)
    ran = run("agent", "--propose")
    assert ran.code == 0, ran.err
    assert "8 x NVIDIA H200; nothing was measured" in ran.out
    said = " ".join(ran.out.split())
    assert "gpu 8 nvlink 450 NV18: data sheet of H100: 18 NVLinks of 25 GB/s a direction" in said


def test_npus_by_hccs(run: Run, drivers: Path) -> None:
    answers = {"info -t topo": "910b3-8.topo.txt", "info": "910b3-8.npu-smi.txt"}
    driver(drivers, "npu-smi", answers)
    ran = run("agent", "--propose")
    assert ran.code == 0, ran.err
    assert "8 x Ascend 910B3" in ran.out
    assert "npu 8 hccs 196 HCCS: data sheet of Atlas 800T A2" in " ".join(ran.out.split())


def test_a_matrix_that_is_none_is_said(run: Run, drivers: Path) -> None:
    answers = {"--query-gpu=": "h200-8.cards.csv", "topo -m": "a100.cards.csv"}
    driver(drivers, "nvidia-smi", answers)
    ran = run("agent", "--propose")
    assert ran.code == 0, ran.err
    assert "nvidia-smi topo -m: there is no matrix of GPUs or NPUs" in ran.out
    assert "only measuring tells" in ran.out


def test_samples_need_a_place(run: Run) -> None:
    ran = run("agent")
    assert ran.code == 2
    assert "-o samples.json" in ran.err
    ran = run("agent", "--serve", "-o", "samples")
    assert ran.code == 2
    assert "--serve needs the URL" in ran.err
