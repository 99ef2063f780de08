"""Both wheels, built once."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def build_wheels(root: Path, folder: Path) -> list[Path]:
    """The wheels of both distributions of a source tree: the client's, then the server's."""
    for project in (root, root / "clients"):
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
            cwd=project,
            check=True,
            capture_output=True,
            timeout=120,
        )
    return sorted(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def wheel_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The wheels of this repository."""
    return build_wheels(ROOT, tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="session")
def built(wheel_files: list[Path]) -> list[zipfile.ZipFile]:
    return [zipfile.ZipFile(wheel) for wheel in wheel_files]


@pytest.fixture(scope="session")
def installed(built: list[zipfile.ZipFile], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both distributions, to be named in PYTHONPATH."""
    folder = tmp_path_factory.mktemp("installed")
    for wheel in built:
        wheel.extractall(folder)
    return folder
