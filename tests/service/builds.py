"""Another build of the planner, for the tests of what tells builds apart."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from meshwright_solver.planning.build import build_of
from tests.service.conftest import ROOT


def another_build(folder: Path) -> tuple[Path, str]:
    """A folder with all packages, one file of the solver changed, and the build that this is."""
    sources = folder / "sources"
    sources.mkdir()
    for name in ("bench", "clients", "costmodel", "service", "tests"):
        (sources / name).symlink_to(ROOT / name)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "solver", sources / "solver", ignore=ignored)
    changed = sources / "solver" / "meshwright_solver" / "evaluation" / "evaluate.py"
    changed.write_text(changed.read_text() + "# another\n")
    schema = ROOT / "clients" / "meshwright" / "schema"
    cost_model = ROOT / "costmodel" / "meshwright_costmodel"
    return sources, build_of([schema, cost_model, sources / "solver" / "meshwright_solver"])


def python_path(sources: Path) -> str:
    """What PYTHONPATH has, so that all packages are imported from this folder."""
    names = ("", "clients", "costmodel", "service", "solver")
    return os.pathsep.join(str(sources / name) for name in names)
