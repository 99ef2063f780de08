"""Rooms: every package says in one line what belongs in it, and nothing lies loose beside them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (
    ROOT / "clients" / "meshwright",
    ROOT / "costmodel" / "meshwright_costmodel",
    ROOT / "service" / "meshwright_service",
    ROOT / "solver" / "meshwright_solver",
)
DATA = {  # files without modules of ours
    "dashboard",
    "devices",
    "example_graphs",
    "nodes",
    "pods",
    "migrations",
    "versions",
}


def rooms() -> Iterator[Path]:
    for source in SOURCES:
        for folder in [source, *source.rglob("*")]:
            if folder.is_dir() and not DATA & {*folder.parts} and folder.name != "__pycache__":
                yield folder


@pytest.mark.parametrize("room", list(rooms()), ids=lambda room: room.relative_to(ROOT).as_posix())
def test_every_room_has_a_charter_of_one_line(room: Path) -> None:
    charter = ast.get_docstring(ast.parse((room / "__init__.py").read_text()))
    assert charter
    assert charter.splitlines()[0].endswith("."), "the first line is a sentence"


@pytest.mark.parametrize("source", SOURCES[2:], ids=lambda source: source.name)
def test_no_module_lies_loose_at_the_top_of_the_service_and_the_planner(source: Path) -> None:
    assert [file.name for file in source.glob("*.py")] == ["__init__.py"]


PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text()


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_every_room_is_named_in_the_architecture_page(source: Path) -> None:
    for room in source.iterdir():
        if room.is_dir() and room.name not in DATA | {"__pycache__", "calibrations"}:
            assert f"| `{room.name}/` |" in PAGE, f"{room}: name it in the page"


def test_every_path_in_the_architecture_page_exists() -> None:
    paths = re.findall(r"`((?:clients|costmodel|service|solver)/[\w./-]+)`", PAGE)
    assert len(paths) > 50
    for path in paths:
        assert (ROOT / path).exists(), path
