"""What each distribution may import; import-linter holds the arrows between rooms (`make lint`)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "meshwright": ROOT / "clients" / "meshwright",
    "meshwright_costmodel": ROOT / "costmodel" / "meshwright_costmodel",
    "meshwright_service": ROOT / "service" / "meshwright_service",
    "meshwright_solver": ROOT / "solver" / "meshwright_solver",
}
SCHEMA = PACKAGES["meshwright"] / "schema"
PLANNER = [PACKAGES["meshwright_solver"], PACKAGES["meshwright_costmodel"], SCHEMA]
GENERIC = {"service", "solver", "costmodel", "clients"}  # folders of the repository, no packages
OTHERS = ("tests", "examples", "bench", "docs")
FRAMEWORKS = {"torch", "jax", "mindspore", "transformers", "onnx"}
SERVERS = {"fastapi", "starlette", "uvicorn", "sqlalchemy", "alembic", "pydantic_settings", "httpx"}


@cache  # most files are asked for several times
def imports(file: Path) -> tuple[str, ...]:
    """Modules that a file imports, wherever in it."""
    return tuple(_imports(file))


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            yield node.module or ""


def files(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*.py"))
    assert found
    return found


def test_the_client_needs_no_other_distribution() -> None:
    for file in files(PACKAGES["meshwright"]):
        for module in imports(file):
            assert module.split(".")[0] not in PACKAGES.keys() - {"meshwright"}, f"{file}: {module}"


@pytest.mark.parametrize("folder", [*PACKAGES.values(), *(ROOT / name for name in OTHERS)])
def test_nothing_imports_a_folder_of_the_repository(folder: Path) -> None:
    for file in files(folder):
        for module in imports(file):
            assert module.split(".")[0] not in GENERIC, f"{file}: import a package instead"


@pytest.mark.parametrize("folder", [*PLANNER, PACKAGES["meshwright_service"]])
def test_the_server_knows_no_framework(folder: Path) -> None:
    for file in files(folder):
        for module in imports(file):
            assert module.split(".")[0] not in FRAMEWORKS, f"{file} imports {module}"


@pytest.mark.parametrize("folder", PLANNER)
def test_the_planner_knows_no_server(folder: Path) -> None:
    for file in files(folder):
        for module in imports(file):
            assert module.split(".")[0] not in SERVERS, f"{file} imports {module}"


def test_nothing_of_ours_unpickles() -> None:
    for package in ("meshwright_service", "meshwright"):
        for file in files(PACKAGES[package]):
            assert not {"pickle", "marshal", "shelve", "dill"} & set(imports(file)), file


def test_the_client_imports_without_the_server() -> None:
    """In a process in which everything that only the server needs is missing."""
    missing = [
        *(PACKAGES.keys() - {"meshwright"}),
        *FRAMEWORKS,
        *(SERVERS - {"httpx"}),
        "networkx",
        "numpy",
        "ortools",
        "zstandard",
    ]
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({missing!r}))\n"
        "import meshwright.cli, meshwright.client, meshwright.planfile, meshwright.render\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
