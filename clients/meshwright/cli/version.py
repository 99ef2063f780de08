"""`--version`: the version of a distribution and the build of the planner."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Literal

import typer

from meshwright.plugins.planner import planner_build
from meshwright.schema import Unavailable

Distribution = Literal["meshwright", "meshwright-server"]


def version_line(distribution: Distribution) -> str:
    """`NAME VERSION`, followed by the build of the planner if one is installed."""
    line = f"{distribution} {version(distribution)}"
    try:
        return f"{line}, planner build {planner_build()}"
    except Unavailable:
        return line


def version_option(distribution: Distribution) -> Any:
    """The option `--version` of the program that a distribution installs."""

    def print_version(is_wanted: bool) -> None:
        if is_wanted:
            typer.echo(version_line(distribution))
            raise typer.Exit

    return typer.Option(
        "--version",
        callback=print_version,
        is_eager=True,
        help="Print the version and the build of the planner.",
    )
