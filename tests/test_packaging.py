"""The wheels hold what they need, and the light one stands alone."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Distribution -> the files in its wheel."""
    folder = tmp_path_factory.mktemp("wheels")
    for project in (ROOT, ROOT / "clients"):
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
            cwd=project,
            check=True,
            capture_output=True,
            timeout=120,
        )
    return {
        wheel.name.split("-")[0]: set(zipfile.ZipFile(wheel).namelist())
        for wheel in folder.glob("*.whl")
    }


def test_the_server_brings_its_data(wheels: dict[str, set[str]]) -> None:
    for name in (
        "service/migrations/env.py",
        "service/migrations/script.py.mako",
        "service/migrations/versions/0001_first_storey.py",
        "service/dashboard/index.html",
        "service/dashboard/views/plans.js",
        "service/py.typed",
        "costmodel/devices/h100.json",
        "costmodel/nodes/dgx-h100.json",
        "costmodel/calibrations/datasheet.json",
        "solver/planner.py",
    ):
        assert name in wheels["meshwright_server"], name


def test_every_tracked_file_of_a_package_is_in_a_wheel(wheels: dict[str, set[str]]) -> None:
    packed = wheels["meshwright_server"] | wheels["meshwright"]
    for folder, base in (("service", ROOT), ("solver", ROOT), ("costmodel", ROOT),
                         ("clients/meshwright", ROOT / "clients")):  # fmt: skip
        for file in (ROOT / folder).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                assert file.relative_to(base).as_posix() in packed, file


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
