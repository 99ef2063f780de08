"""Output files: checked before the work, and what cannot be written is kept."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from meshwright.cli import cli
from meshwright.planfile import read_plan
from tests.clients.conftest import Run

FULL = Path("/dev/full")  # takes a check, and no byte


def commands() -> list[tuple[str, ...]]:
    """Every command that has -o, but for agents: with --serve theirs is a folder."""
    found = []
    for name, made in get_command(cli).commands.items():  # type: ignore[attr-defined]
        below = getattr(made, "commands", None)
        for path, command in [((name, sub), own) for sub, own in below.items()] if below else [
            ((name,), made)
        ]:  # fmt: skip
            if any("-o" in option.opts for option in command.params):
                found.append(path)
    return [path for path in found if path != ("agent",)]


REST = {
    "plan": ("--topology", "h100-1x2"),
    "replan": ("--topology", "h100-1x2", "--steps", "1"),
    "estimate": ("--topology", "h100-1x2"),
    "explain": ("--op", "*"),
    "export": ("--to", "jax"),
    "compare": ("none.json",),
    "transfer": ("none.json",),
    "hf": ("--batch", "1", "--seq", "1"),
    "torch": ("--batch", "1"),
    "jax": ("--batch", "1"),
    "mindspore": ("--batch", "1"),
}


def test_there_are_commands_with_an_output() -> None:
    assert isinstance(cli, typer.Typer)
    assert {"plan", "replan", "estimate", "export", "fit", "simulate"} <= {
        path[0] for path in commands()
    }


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_an_output_is_checked_before_anything_is_read(
    run: Run, tmp_path: Path, path: tuple[str, ...]
) -> None:
    words = (*path, tmp_path / "none.json", *REST.get(path[-1], ()), "-o")
    (tmp_path / "file").write_text("as it was")
    for output, said in (
        (tmp_path / "none" / "out.json", "No such file or directory"),
        (tmp_path / "file" / "out.json", "Not a directory"),
        (tmp_path, "it is a folder"),
        (Path("/proc/version"), "Permission denied"),
    ):
        ran = run(*words, output)
        assert ran.code == 2
        assert f"{output} cannot be written: " in ran.err
        if output != Path("/proc/version"):  # the text is the system's
            assert said in ran.err
    assert [own.name for own in tmp_path.iterdir()] == ["file"]
    # one that can be written is left as it is by a command that fails
    assert run(*words, tmp_path / "file").code in (2, 3)
    assert "cannot be written" not in run(*words, tmp_path / "file").err
    assert (tmp_path / "file").read_text() == "as it was"
    assert [own.name for own in tmp_path.iterdir()] == ["file"]


def test_a_plan_that_cannot_be_written_is_kept(
    run: Run, graph_file: Path, topology_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ran = run("plan", graph_file, "--topology", topology_file, "-o", FULL)
    assert ran.code == 2
    (kept,) = (tmp_path / "cache" / "meshwright" / "results").iterdir()
    found = read_plan(kept)
    assert kept.name == f"{found.plan.id}.json"
    assert f"The result {found.plan.id} is kept in {kept}. Copy it from there" in ran.err
    assert found.graph is not None
    assert run("show", kept).code == 0


def test_where_there_is_no_cache_a_plan_is_kept_with_temporary_files(
    run: Run, graph_file: Path, topology_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(graph_file))  # no folder
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    ran = run("plan", graph_file, "--topology", topology_file, "-o", FULL)
    assert ran.code == 2
    own = tmp_path / "temporary" / f"meshwright-{os.getuid()}"
    (kept,) = (own / "results").iterdir()
    assert f"is kept in {kept}" in ran.err
    assert own.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(tempfile, "tempdir", str(graph_file))
    ran = run("plan", graph_file, "--topology", topology_file, "-o", FULL)
    assert ran.code == 2
    assert f"The result {read_plan(kept).plan.id} could not be kept" in ran.err


def test_a_machine_without_temporary_files_keeps_a_plan_in_the_cache(
    run: Run, graph_file: Path, topology_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_is_usable() -> str:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(tempfile, "gettempdir", none_is_usable)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ran = run("plan", graph_file, "--topology", topology_file, "-o", FULL)
    assert "is kept in" in ran.err
    monkeypatch.setenv("XDG_CACHE_HOME", str(graph_file))  # no folder
    ran = run("plan", graph_file, "--topology", topology_file, "-o", FULL)
    assert ran.code == 2
    assert "could not be kept" in ran.err


def test_samples_go_to_a_file_that_can_be_written(run: Run, tmp_path: Path) -> None:
    ran = run("agent", "-o", tmp_path / "none" / "samples.json", "--seconds", "1")
    assert ran.code == 2
    assert "samples.json cannot be written" in ran.err
