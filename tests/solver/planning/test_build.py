"""The build is another one as soon as any byte of the planner is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from meshwright_solver.planning.build import build_of, planner_build
from tests.solver.requests import mlp_request, planned
from tests.solver.small_graphs import topology

ROOT = Path(__file__).parents[3]
SOURCES = (
    ROOT / "clients" / "meshwright" / "schema",
    ROOT / "costmodel" / "meshwright_costmodel",
    ROOT / "solver" / "meshwright_solver",
)


@pytest.fixture
def copied(tmp_path: Path) -> list[Path]:
    """The sources in folders of their own."""
    ignored = shutil.ignore_patterns("__pycache__")
    for source in SOURCES:
        shutil.copytree(source, tmp_path / source.name, ignore=ignored)
    return [tmp_path / source.name for source in SOURCES]


def test_a_copy_of_the_sources_is_the_same_build(copied: list[Path]) -> None:
    assert build_of(copied) == planner_build()
    assert len(planner_build()) == 16


def _with_a_comment(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"# another\n")


def _with_another_digit(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"1", b"2", 1))


def _elsewhere(file: Path) -> None:
    file.rename(file.with_name("elsewhere.py"))


@pytest.mark.parametrize(
    ("folder", "name", "change"),
    [
        (2, "evaluation/evaluate.py", _with_a_comment),
        (2, "evaluation/step_time/closed_form.py", _with_a_comment),
        (1, "collectives.py", _with_a_comment),
        (1, "calibrations/published.json", _with_another_digit),
        (0, "plan.py", _with_a_comment),
        (2, "evaluation/evaluate.py", Path.unlink),
        (2, "evaluation/evaluate.py", _elsewhere),
    ],
)
def test_changed_sources_are_another_build(
    copied: list[Path], folder: int, name: str, change: Callable[[Path], object]
) -> None:
    change(copied[folder] / name)
    assert build_of(copied) != planner_build()


def test_what_is_compiled_is_no_part_of_a_build(copied: list[Path]) -> None:
    cache = copied[2] / "evaluation" / "__pycache__"
    cache.mkdir()
    (cache / "paths.nbi").write_bytes(b"compiled")
    assert build_of(copied) == planner_build()


def test_another_process_runs_the_same_build_and_plans_name_it() -> None:
    program = "from meshwright_solver.planning.build import planner_build; print(planner_build())"
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == planner_build()
    assert planned(mlp_request(8, topology(2))).planner_build == planner_build()
