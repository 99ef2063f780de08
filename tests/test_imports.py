"""Arrows point one way: service -> solver -> costmodel -> meshwright.schema <- clients."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OURS = ("service", "solver", "costmodel", "meshwright")
FRAMEWORKS = {"torch", "jax", "mindspore", "transformers", "onnx"}
SERVERS = {"fastapi", "starlette", "uvicorn", "sqlalchemy", "alembic", "pydantic_settings", "httpx"}
SCHEMA = "meshwright.schema"

# what the modules under a folder may import of ours
MAY: dict[str, tuple[str, ...]] = {
    "clients/meshwright/schema": (SCHEMA,),
    "costmodel": ("costmodel", SCHEMA),
    "solver": ("solver", "costmodel", SCHEMA),
    "service": OURS,
    "clients/meshwright": ("meshwright",),
}


def imports(file: Path) -> Iterator[str]:
    """Modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            yield node.module or ""


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@pytest.mark.parametrize("folder", MAY)
def test_arrows_point_one_way(folder: str) -> None:
    found = files(folder)
    assert found
    for file in found:
        for module in imports(file):
            if module.split(".")[0] in OURS:
                allowed = any(within(module, package) for package in MAY[folder])
                assert allowed, f"{file.relative_to(ROOT)} imports {module}"


def test_nothing_imports_the_folder_clients() -> None:
    for folder in ("service", "solver", "costmodel", "clients", "tests", "examples", "bench"):
        for file in files(folder):
            for module in imports(file):
                assert not within(module, "clients"), f"{file}: import meshwright instead"


@pytest.mark.parametrize("folder", ["service", "solver", "costmodel", "clients/meshwright/schema"])
def test_the_server_knows_no_framework(folder: str) -> None:
    for file in files(folder):
        for module in imports(file):
            assert module.split(".")[0] not in FRAMEWORKS, f"{file} imports {module}"


@pytest.mark.parametrize("folder", ["solver", "costmodel", "clients/meshwright/schema"])
def test_the_planner_knows_no_server(folder: str) -> None:
    for file in files(folder):
        for module in imports(file):
            assert module.split(".")[0] not in SERVERS, f"{file} imports {module}"


def test_nothing_of_ours_unpickles() -> None:
    for folder in ("service", "clients/meshwright"):
        for file in files(folder):
            assert not {"pickle", "marshal", "shelve", "dill"} & set(imports(file)), file


def test_the_client_imports_without_the_server() -> None:
    """In a process in which everything that only the server needs is missing."""
    missing = [*OURS[:3], *FRAMEWORKS, *(SERVERS - {"httpx"}), "numpy", "ortools", "zstandard"]
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({missing!r}))\n"
        "import meshwright.cli, meshwright.client, meshwright.planfile, meshwright.show\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
