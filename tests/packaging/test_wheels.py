"""The wheels hold what they need, and the light one stands alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    ROOT / "clients" / "meshwright",
    ROOT / "costmodel" / "meshwright_costmodel",
    ROOT / "service" / "meshwright_service",
    ROOT / "solver" / "meshwright_solver",
)
GRAPH = {
    "symbols": {"batch": 8},
    "tensors": [
        {"name": "x", "shape": ["batch", 64], "dtype": "float32", "role": "input"},
        {"name": "w", "shape": [64, 64], "dtype": "float32", "role": "parameter"},
        {"name": "y", "shape": ["batch", 64], "dtype": "float32"},
    ],
    "ops": [{"name": "up", "kind": "linear", "inputs": ["x", "w"], "outputs": ["y"]}],
    "outputs": ["y"],
}


@pytest.fixture(scope="module")
def wheels(built: list[zipfile.ZipFile]) -> dict[str, set[str]]:
    """Distribution -> the files in its wheel."""
    return {Path(str(wheel.filename)).name.split("-")[0]: set(wheel.namelist()) for wheel in built}


@pytest.fixture
def decoys(tmp_path: Path) -> Path:
    """A user's folder, whose modules are called as the folders of this repository are."""
    for name in ("solver", "costmodel", "clients"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("MINE = True\n")
    for name in ("service.py", "planner.py", "common.py", "tests.py"):
        (tmp_path / name).write_text("MINE = True\n")
    return tmp_path


def test_a_users_own_modules_and_ours_shadow_each_other_nowhere(
    installed: Path, decoys: Path
) -> None:
    """The working directory comes first in sys.path, as with `python -m` and `python -c`."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "PYTHONWARNINGS": "error"}

    def run(*words: str) -> str:
        ran = subprocess.run(
            [sys.executable, *words],
            cwd=decoys, env=environment, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    (decoys / "graph.json").write_text(json.dumps(GRAPH))
    asked = ("graph.json", "--topology", "h100-1x2")
    assert "Plan" in run("-m", "meshwright.cli", "plan", *asked, "-o", "plan.json")
    assert "Plan" in run("-m", "meshwright.cli", "show", "plan.json")
    print_origin = (
        "import meshwright, meshwright_solver, solver, service, costmodel, clients; "
        "from meshwright.plugins import find_planner; "
        "assert solver.MINE and service.MINE and costmodel.MINE and clients.MINE; "
        "print(find_planner().__module__, meshwright_solver.__file__, meshwright.__file__)"
    )
    module, *files = run("-c", print_origin).split()
    assert module == "meshwright_solver.planning.planner"
    assert all(Path(file).is_relative_to(installed) for file in files)
    command = [sys.executable, "-m", "meshwright_service.cli", "serve", "--port", "0"]
    with subprocess.Popen(
        command, cwd=decoys, env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://[0-9.]+:\d+", server.stdout.readline())
            assert found is not None
            options = ("--server", found[0], "-o", "served.json")
            assert "Plan" in run("-m", "meshwright.cli", "plan", *asked, *options)
        finally:
            server.terminate()


def test_the_server_brings_its_data(wheels: dict[str, set[str]]) -> None:
    for name in (
        "meshwright_service/store/migrations/env.py",
        "meshwright_service/store/migrations/script.py.mako",
        "meshwright_service/store/migrations/versions/0001_first_storey.py",
        "meshwright_service/dashboard/index.html",
        "meshwright_service/dashboard/views/plans.js",
        "meshwright_service/py.typed",
        "meshwright_costmodel/devices/h100.json",
        "meshwright_costmodel/nodes/dgx-h100.json",
        "meshwright_costmodel/pods/tpu-v5p.json",
        "meshwright_costmodel/relatives.json",
        "meshwright_costmodel/calibrations/datasheet.json",
        "meshwright_solver/planning/planner.py",
    ):
        assert name in wheels["meshwright_server"], name


def test_every_tracked_file_of_a_package_is_in_a_wheel(wheels: dict[str, set[str]]) -> None:
    packed = wheels["meshwright_server"] | wheels["meshwright"]
    for source in SOURCES:
        for file in source.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                assert file.relative_to(source.parent).as_posix() in packed, file


def test_the_wheels_do_not_overlap(wheels: dict[str, set[str]]) -> None:
    assert wheels["meshwright_server"] & wheels["meshwright"] == set()
    assert not [name for name in wheels["meshwright_server"] if name.startswith("tests")]


def test_the_light_wheel_brings_the_contract_and_the_commands(
    wheels: dict[str, set[str]],
) -> None:
    for name in ("meshwright/schema/plan.py", "meshwright/cli/app.py", "meshwright/py.typed"):
        assert name in wheels["meshwright"]
    assert all(
        name.startswith("meshwright/") or ".dist-info/" in name for name in wheels["meshwright"]
    )


def test_every_entry_point_leads_somewhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for group, points in project["entry-points"].items():
        for name, value in points.items():
            module, _, function = value.partition(":")
            assert callable(getattr(import_module(module), function)), (group, name)
