"""`--version`: the version of a distribution and the build of the planner."""

from __future__ import annotations

from importlib.metadata import version
from typing import Literal

from meshwright.plugins.planner import planner_build
from meshwright.schema import Unavailable


def version_line(distribution: Literal["meshwright", "meshwright-server"]) -> str:
    """`NAME VERSION`, followed by the build of the planner if one is installed."""
    line = f"{distribution} {version(distribution)}"
    try:
        return f"{line}, planner build {planner_build()}"
    except Unavailable:
        return line
