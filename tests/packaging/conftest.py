"""Both wheels, built once."""

from __future__ import annotations

import site
import subprocess
import sys
import venv
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


@pytest.fixture(scope="session")
def environment(wheel_files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the two wheels, and the dependencies of this one behind them."""
    folder = tmp_path_factory.mktemp("environment")
    folder.chmod(0o755)  # users of the sandbox read it
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run(
        [*pip, "install", "--quiet", "--no-index", "--no-deps", *wheel_files],
        check=True,
        capture_output=True,
        timeout=120,
    )
    (packages,) = folder.glob("lib/python*/site-packages")
    # a path configuration file adds a folder without reading the configuration files in it, such as
    # those of the editable installations of this repository
    (packages / "dependencies.pth").write_text(f"{site.getsitepackages()[0]}\n")
    return folder
