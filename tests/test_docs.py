"""The documentation is held to the code: examples run, and nothing public is missing."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
import typer
from typer.main import get_command

from meshwright.cli import cli
from meshwright.client import Client
from meshwright.exports import EveryTarget
from meshwright.schema import MeshwrightError
from meshwright_service.api.app import create_app
from meshwright_service.api.static_files import PAGES
from meshwright_service.cli.main import cli as server_cli
from meshwright_service.common import errors as service_errors
from meshwright_service.common.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SERVICE = (ROOT / "docs" / "reference" / "service.md").read_text(encoding="utf-8")


def test_every_page_of_the_dashboard_is_in_the_documentation() -> None:
    assert [path for path in PAGES if f"`{path}`" not in SERVICE] == []
    assert "Not yet" not in SERVICE


def test_the_glossary_has_every_term_once_and_in_order() -> None:
    page = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    tables = [re.findall(r"^\| (.+?) \| .+ \|$", part, re.MULTILINE) for part in page.split("## ")]
    terms = [[term for term in own if term not in ("term", "---")] for own in tables if own]
    assert len(terms) == 2
    for own in terms:
        assert own == sorted(own, key=str.casefold)
    every = [term for own in terms for one in own for term in one.split(", ")]
    assert len(set(every)) == len(every)


def test_the_readme_has_its_parts() -> None:
    assert "    make run" in README
    assert "    make test" in README
    assert len(README.splitlines()) <= 160
    headings = re.findall(r"^## (.+)$", README, re.MULTILINE)
    assert headings == [
        "Highlights",
        "Install",
        "Plan a model in one minute",
        "As a service",
        "Use the plan in a training job",
        "How it compares",
        "Status and limits",
        "Documentation",
    ]


def test_the_python_example_of_the_readme_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(example.splitlines()) <= 20
    ran = subprocess.run(
        [sys.executable, "-c", example],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(r"step [\d.]+ ms\n", ran.stdout)


def test_the_files_that_the_readme_points_to_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", README):
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


def test_the_reference_of_the_command_line_is_current_and_complete() -> None:
    published = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    assert published == script(ROOT / "docs" / "generate_command_line.py").text(), "make schema"
    for path, options in [*commands(cli, "meshwright"), *commands(server_cli, "meshwright-server")]:
        section = published.split(f"\n## {path}\n")[1].split("\n## ")[0]
        assert all(option in section for option in options), path


def test_every_command_stands_in_the_table_of_commands() -> None:
    rows = [line for line in SERVICE.splitlines() if line.startswith("| `meshwright")]
    for path, _ in [*commands(cli, "meshwright"), *commands(server_cli, "meshwright-server")]:
        program, command = path.split(maxsplit=1)
        of_program = [row for row in rows if row.startswith(f"| `{program} ")]
        names = [f"`{path}`", f"`{command}`"]
        assert any(name in row for row in of_program for name in names), path


def test_every_target_of_an_export_is_documented() -> None:
    row = next(line for line in SERVICE.splitlines() if "/exports/{target}" in line)
    for target in get_args(EveryTarget):
        assert f"`{target}`" in row, target


def test_no_command_takes_a_schema_back_as_the_documents_say() -> None:
    operations = (ROOT / "docs" / "how-to" / "operations.md").read_text(encoding="utf-8")
    assert "A schema is never downgraded, and no command does it." in operations
    assert [path for path, _ in commands(server_cli, "meshwright-server") if "down" in path] == []


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


@pytest.mark.parametrize("name", ["calibration", "costgraphfile", "costgraphsolution",
                                  "devicetransfer", "graph", "observation", "plan", "planfile",
                                  "request", "samples", "setup", "simulation", "topology",
                                  "transfer"])  # fmt: skip
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
