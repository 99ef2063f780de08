"""Write reference/command-line.md, the help of every command: `make schema`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command
from typer.testing import CliRunner

from meshwright.cli import cli as client
from meshwright_service.cli.main import cli as server

FOLDER = Path(__file__).resolve().parent
COLUMNS = 100
INTRODUCTION = """# Command line

`meshwright` plans, and reads, exports and compares plans. It runs the search in its own process, or
at a service with `--server URL`. `meshwright-server` runs the service. The sections below are the
output of `--help`; `make schema` writes them.

A command prints its result to standard output, and progress and warnings to standard error.
`--json` prints the result as a JSON document instead of tables. Ctrl-C ends a search and keeps the
best plan so far.

| exit code | meaning |
| --- | --- |
| 0 | success |
| 1 | no plan fits, or a verification failed |
| 2 | invalid input |
| 3 | a service, a planner or a framework is missing |
| 130 | ended by Ctrl-C without a result |

`meshwright --install-completion` installs completion for the current shell. A graph file is JSON,
optionally compressed (`.json.gz`, `.json.zst`). An argument that names a plan is a file, or the id
of a plan if `--server` (or `MESHWRIGHT_SERVER`) is given.
"""


def text() -> str:
    """The page."""
    programs = ((client, "meshwright"), (server, "meshwright-server"))
    sections = [_section(app, path) for app, name in programs for path in _paths(app, name)]
    return "\n".join((INTRODUCTION, *sections))


def _paths(app: typer.Typer, name: str) -> Iterator[str]:
    """The program, then every command below it that has no commands of its own."""

    def below(command: Any, path: str) -> Iterator[str]:
        for child, inner in getattr(command, "commands", {}).items():
            yield from below(inner, f"{path} {child}")
        if not hasattr(command, "commands"):
            yield path

    yield name
    yield from below(get_command(app), name)


def _section(app: typer.Typer, path: str) -> str:
    program, *words = path.split()
    answer = CliRunner().invoke(
        app,
        [*words, "--help"],
        prog_name=program,
        terminal_width=COLUMNS,
        max_content_width=COLUMNS,
    )
    assert answer.exit_code == 0, (path, answer.output)
    lines = (line.rstrip() for line in answer.output.rstrip().splitlines())
    return f"## {path}\n\n```text\n" + "\n".join(lines) + "\n```\n"


if __name__ == "__main__":
    (FOLDER / "reference" / "command-line.md").write_text(text(), encoding="utf-8")
