"""Commands print the same here and at a service, by option or MESHWRIGHT_SERVER."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from meshwright.cli.app import cli
from meshwright.planfile import read_plan
from meshwright.schema import Calibration
from tests.costmodel.test_fitting import samples
from tests.service.cli.test_serve import command
from tests.service.conftest import server
from tests.service.samples import GRAPH

Printed = Callable[..., tuple[int, str]]
# when a search found what: each takes another time; and how wide that makes a column
SECONDS = re.compile(r" after [0-9.,]+ [mµn]?s|(?<=\S) +$|(?<=  ) +", re.MULTILINE)


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Printed:
    """The exit code and the output of a command, without the times of its search."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str) -> tuple[int, str]:
        code = command(*words)
        return code, SECONDS.sub("", capsys.readouterr().out)

    return run


@pytest.fixture
def at(tmp_path: Path) -> Iterator[str]:
    """The URL of a service with the real planner."""
    with server(tmp_path, planner="default") as (url, _):
        yield url


@pytest.fixture
def graph(tmp_path: Path) -> str:
    made = tmp_path / "graph.json"
    made.write_text(json.dumps(GRAPH))
    return str(made)


@pytest.fixture
def setup(tmp_path: Path) -> str:
    made = tmp_path / "setup.json"
    made.write_text('{"phase": "inference"}')
    return str(made)


def test_searches_print_the_same(
    at: str,
    graph: str,
    setup: str,
    tmp_path: Path,
    printed: Printed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = str(tmp_path / "plan.json")
    assert printed("plan", graph, "--topology", "h100-1x4", "-o", file)[0] == 0
    for words in (
        ("plan", graph, "--topology", "h100-1x4", "--setup", setup, "--verify"),
        ("plan", graph, "--topology", "h100-1x4", "--pipeline", "2"),
        ("estimate", graph, "--topology", "h100-1x4", "--dp", "2", "--tp", "2"),
        ("plan", graph, "--topology", "h100-1x4"),
        ("replan", file, "--topology", "h100-1x2"),
    ):
        here = printed(*words)
        assert here[0] == 0
        assert printed(*words, "--server", at) == here, words
    with monkeypatch.context() as environment:
        environment.setenv("MESHWRIGHT_SERVER", at)
        assert printed(*words) == here
        assert printed("replan", read_plan(Path(file)).plan.id, *words[2:]) == here


def test_what_is_stored_prints_the_same_as_files(
    at: str,
    graph: str,
    setup: str,
    tmp_path: Path,
    printed: Printed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = str(tmp_path / "one.json"), str(tmp_path / "two.json")
    for file, topology in ((one, "h100-1x4"), (two, "h100-1x2")):
        words = ("plan", graph, "--topology", topology, "--setup", setup, "--verify", "-o", file)
        assert printed(*words, "--server", at)[0] == 0
    ids = [read_plan(Path(file)).plan.id for file in (one, two)]
    for name, count, *options in (
        ("show", 1, "--groups"),
        ("verify", 1),
        ("simulate", 1),
        ("transfer", 2),
        ("transfer", 2, "--rank", "1"),
        ("compare", 2),
        ("explain", 1, "--op", "layers.0.*"),
        ("export", 1, "--to", "dtensor", "--partial"),
        ("export", 1, "--to", "jax", "--partial"),
        ("export", 1, "--to", "mindspore", "--partial"),
        ("export", 1, "--to", "megatron-core", "--partial"),
    ):
        here = printed(str(name), *(one, two)[:count], *map(str, options))
        assert here[0] == 0
        assert here[1]
        there = (str(name), *ids[:count], *map(str, options))
        assert printed(*there, "--server", at) == here, there
        with monkeypatch.context() as environment:
            environment.setenv("MESHWRIGHT_SERVER", at)
            assert printed(*there) == here
            # what is a file is read as one
            assert printed(str(name), *(one, two)[:count], *map(str, options)) == here


def test_calibrations_print_the_same(at: str, tmp_path: Path, printed: Printed) -> None:
    measured, here, there = (tmp_path / name for name in ("samples", "here", "there"))
    measured.write_text(samples().to_json())
    fitted = printed("fit", str(measured), "-o", str(here))
    assert printed("fit", str(measured), "-o", str(there), "--server", at) == fitted
    assert json.loads(here.read_text()) == json.loads(there.read_text())
    shown = printed("calibrations", "show", str(here), "--samples", str(measured))
    id_ = Calibration.from_json(here.read_text()).id
    assert id_ in printed("calibrations", "list", "--server", at)[1]
    assert printed("calibrations", "show", id_, "--server", at) == shown


def test_every_command_that_asks_a_service_knows_it_from_the_environment() -> None:
    options = [
        (name, option)
        for name, made in typer.main.get_command(cli).commands.items()  # type: ignore[attr-defined]
        for own in getattr(made, "commands", {"": made}).values()
        for option in own.params
        if option.name == "server"
    ]
    assert all(option.envvar == "MESHWRIGHT_SERVER" for _, option in options)
    assert {name for name, _ in options} >= {
        "plan", "replan", "estimate", "show", "explain", "compare", "verify", "simulate",
        "transfer", "export", "agent", "agents", "measure", "fit", "calibrations",
    }  # fmt: skip
