"""The command line in a test: run it, get its code and what it said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from meshwright.cli import main
from tests.service.samples import GRAPH, TOPOLOGY


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `meshwright ARGUMENTS…` in this process, as wide as a page."""
    monkeypatch.setenv("COLUMNS", "140")

    def command(*arguments: str | Path) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int) or code is None
        return Ran(code or 0, said.out, said.err)

    return command


@pytest.fixture
def files(tmp_path: Path) -> Callable[[str, Any], Path]:
    """Writes a JSON file."""

    def write(name: str, value: Any) -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(value))
        return path

    return write


@pytest.fixture
def graph_file(files: Callable[[str, Any], Path]) -> Path:
    return files("graph.json", GRAPH)


@pytest.fixture
def topology_file(files: Callable[[str, Any], Path]) -> Path:
    return files("topology.json", TOPOLOGY)
