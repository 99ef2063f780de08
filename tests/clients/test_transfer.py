"""`meshwright transfer`, in this process."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from meshwright.plugins import entry_points
from meshwright.schema.transfer import DeviceTransfer, Transfer
from tests.clients.conftest import Run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def plans(run: Run, graph_file: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Plans of one graph for eight devices and for four."""
    files = tmp_path / "eight.json", tmp_path / "four.json"
    for file, cluster in zip(files, ("h100-2x4", "h100-1x4"), strict=True):
        assert run("plan", graph_file, "--topology", cluster, "-o", file).code == 0
    return files


def test_it_says_what_moves(run: Run, plans: tuple[Path, Path]) -> None:
    ran = run("transfer", *plans, "--first", "8")
    assert ran.code == 0, ran.err
    for word in (
        "8 devices",
        "4 devices",
        "no transfer moves less",
        "busiest link",
        "w.0",
        "optimizer",
    ):
        assert word in ran.out, word


def test_nothing_moves_to_the_same_plan(run: Run, plans: tuple[Path, Path]) -> None:
    ran = run("transfer", plans[0], plans[0])
    assert "moves   0 B in 0 sends" in ran.out
    assert "tensors stay where they are" in ran.out


def test_a_rank_learns_what_it_does(run: Run, plans: tuple[Path, Path], tmp_path: Path) -> None:
    ran = run("transfer", *plans, "--first", "8", "--rank", "9")
    assert ran.code == 0, ran.err
    assert "device 9 receives" in ran.out
    assert "from " in ran.out
    output = tmp_path / "sends.json"
    assert run("transfer", *plans, "--rank", "0", "-o", output).code == 0
    assert DeviceTransfer.from_json(output.read_text()).device == 0
    missed = run("transfer", *plans, "--rank", "70")
    assert missed.code == 2
    assert "device 70 is not part of this transfer" in missed.err


def test_it_writes_the_document(run: Run, plans: tuple[Path, Path], tmp_path: Path) -> None:
    output = tmp_path / "transfer.json"
    ran = run("transfer", *plans, "--state", "value", "--cluster", "h100-4x4", "-o", output)
    assert ran.code == 0, ran.err
    document = Transfer.from_json(output.read_text())
    assert document.levels == (("node", 4), ("gpu", 4))
    assert {line.state for line in document.tensors} == {"value"}


def test_what_is_wrong_is_named(
    run: Run, plans: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run("transfer", *plans, "--cluster", "h100-1x2")
    assert ran.code == 2
    assert "has 2" in ran.err
    bare = tmp_path / "bare.json"
    bare.write_text('{"stages": []}')
    assert run("transfer", bare, plans[0]).code == 2
    monkeypatch.setattr(entry_points, "entry_points", lambda **_: ())
    ran = run("transfer", *plans)
    assert ran.code == 3
    assert "meshwright-server" in ran.err


def test_the_commands_of_the_documentation_run(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "explanation" / "redistribution.md").read_text(encoding="utf-8")
    section = text.split("## Between two meshes")[1]
    commands = [line for line in section.splitlines() if line.startswith("    meshwright ")]
    assert len(commands) == 5
    for command in commands:
        ran = run(*shlex.split(command)[1:])
        assert ran.code == 0, f"{command}: {ran.err}"
