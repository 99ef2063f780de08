"""The coverage page: its sources, commands, tests and states are real."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from meshwright.cli import cli
from meshwright_service.cli.main import cli as server_cli
from tests.coverage_page import ROOT, Row, documents, rows

ROWS = rows()
PROGRAMS: dict[str, Any] = {
    "meshwright": get_command(cli),
    "meshwright-server": get_command(server_cli),
}
HEADINGS: dict[str, list[str]] = json.loads(
    (ROOT / "tests" / "data" / "source_headings.json").read_text(encoding="utf-8")
)
each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)


def test_there_are_rows_for_every_ability_and_item() -> None:
    tables = list(dict.fromkeys(row.table for row in ROWS))
    numbers = [[row.number for row in ROWS if row.table == table] for table in tables]
    assert numbers == [list(range(1, 32)), list(range(32, 46)), list(range(1, 17))]


def test_every_document_of_the_list_has_rows() -> None:
    assert set(documents().values()) == set(HEADINGS)
    cited = {place[0] for row in ROWS for place in re.findall(r"(?:^|; )([A-Z]): ", row.source)}
    assert cited == set(documents())


@each_row
def test_a_source_is_a_heading_of_its_document_or_a_page(row: Row) -> None:
    if row.source.startswith("["):
        return  # tests/test_links.py follows it
    for place in row.source.split("; "):
        letter, _, heading = place.partition(": ")
        assert heading in HEADINGS[documents()[letter]], place


@each_row
def test_the_named_tests_exist(row: Row) -> None:
    assert row.tests
    for test in row.tests:
        path, _, name = test.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@each_row
def test_a_status_is_complete_or_names_what_is_missing(row: Row) -> None:
    assert re.fullmatch(r"complete(: .+)?|partial: .+", row.status)


@each_row
def test_a_command_is_accepted(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in row.command.split(" && "):
        program, *words = shlex.split(line)
        command, path = PROGRAMS[program], [program]
        while hasattr(command, "commands"):
            path.append(words.pop(0))
            command = command.commands[path[-1]]
        command.make_context(" ".join(path), words)


@each_row
def test_a_command_has_another_input_than_the_tests(row: Row) -> None:
    words = shlex.split(row.command)
    graphs = [word.partition(":")[2] for word in words if word.startswith("example:")]
    clusters = [after for word, after in pairwise(words) if word == "--topology"]
    for test in row.tests:
        text = (ROOT / test.partition("::")[0]).read_text(encoding="utf-8")
        both = [
            (graph, cluster)
            for graph in graphs
            for cluster in clusters
            if graph in text and f'"{cluster}"' in text
        ]
        assert both == [], test


@pytest.mark.long
@each_row
def test_a_command_runs(row: Row, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = subprocess.run(
        ["bash", "-c", row.command],
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PATH": search},
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, ran.stderr
