"""The documentation is held to the code: examples run, and nothing public is missing."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from typer.main import get_command

from meshwright.cli import cli
from meshwright.client import Client
from meshwright.schema import MeshwrightError
from service import errors as service_errors
from service.app import create_app
from service.cli import cli as server_cli
from service.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SERVICE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")


def test_the_readme_begins_with_the_two_commands() -> None:
    assert "    make run" in README
    assert "    make test" in README
    assert len(README.splitlines()) < 80


def test_the_example_of_the_readme_runs() -> None:
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(examples) == 1
    assert len(examples[0].splitlines()) <= 15
    ran = subprocess.run(
        [sys.executable, "-c", examples[0]],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stderr
    assert "up" in ran.stdout


def test_the_files_that_the_readme_points_to_exist() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).exists(), target
    for target in re.findall(r"examples/\S+\.gz", README):
        assert (ROOT / target).exists(), target


def commands(app: typer.Typer, name: str) -> Iterator[tuple[str, list[str]]]:
    """Every command and its options."""

    def walk(command: Any, path: str) -> Iterator[tuple[str, list[str]]]:
        if hasattr(command, "commands"):
            for child, below in command.commands.items():
                yield from walk(below, f"{path} {child}")
        else:
            options = [o for p in command.params for o in p.opts if o.startswith("--")]
            yield path, [option for option in options if option != "--help"]

    yield from walk(get_command(app), name)


def test_every_command_and_option_is_documented() -> None:
    found = [*commands(cli, "meshwright"), *commands(server_cli, "meshwright-server")]
    assert len(found) >= 7
    for path, options in found:
        assert f"`{path}" in SERVICE, path
        for option in options:
            known = option in SERVICE or option in ("--output", "--example")
            assert known, f"{path} {option}"


def test_every_endpoint_is_documented(tmp_path: Path) -> None:
    app = create_app(Settings(data_dir=tmp_path))
    for path, methods in app.openapi()["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}" in SERVICE, f"{method} {path}"


def test_every_problem_is_documented() -> None:
    assert service_errors.Internal in tree(MeshwrightError)
    for kind in tree(MeshwrightError):
        assert re.search(rf"^\| `{kind.slug}` \| ({kind.status}|any) \|", SERVICE, re.MULTILINE), (
            kind.slug
        )


def tree(kind: type[MeshwrightError]) -> Iterator[type[MeshwrightError]]:
    """A class of errors and all narrower ones of ours."""
    if kind.__module__.startswith(("meshwright", "service")):
        yield kind
    for narrower in kind.__subclasses__():
        yield from tree(narrower)


def test_every_setting_is_documented_with_its_default() -> None:
    for name, field in Settings.model_fields.items():
        row = re.search(rf"^\| `MESHWRIGHT_{name.upper()}` \|([^|]*)\|", SERVICE, re.MULTILINE)
        assert row, name
        shown = row[1].strip("` ")
        default = "" if field.default is None else field.default
        assert shown == str(default).lower().removesuffix(".0"), name


def test_the_client_of_the_example_exists() -> None:
    assert "client.plan(graph" in SERVICE
    assert Client.plan.__doc__


@pytest.mark.parametrize("name", ["calibration", "devicetransfer", "graph", "observation",
                                  "plan", "planfile", "request", "samples", "setup",
                                  "simulation", "topology", "transfer"])  # fmt: skip
def test_the_json_schemas_are_current(name: str) -> None:
    generate = script(ROOT / "docs" / "schema" / "generate.py")
    published = (ROOT / "docs" / "schema" / f"{name}.json").read_text(encoding="utf-8")
    assert published == generate.schema_text(generate.KINDS[name]), "run: make schema"


def script(path: Path) -> ModuleType:
    """A Python file outside all packages, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
