"""A class name stands in one module: a reader who meets it knows which class is meant."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "clients/meshwright",
    "costmodel/meshwright_costmodel",
    "service/meshwright_service",
    "solver/meshwright_solver",
)


def class_homes() -> dict[str, list[str]]:
    """The modules of every class at the top of a module, by its name."""
    homes: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    homes[node.name].append(str(path.relative_to(ROOT)))
    return homes


def test_a_class_name_stands_in_one_module() -> None:
    homes = class_homes()
    assert len(homes) > 500
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}
