"""`--help`: sections, one-line summaries, examples that the commands accept."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from meshwright.cli import cli
from meshwright.cli.help_examples import EXAMPLES
from meshwright.cli.help_sections import COMMAND_SECTIONS, OPTION_SECTIONS, REST, section_of

PROGRAM = get_command(cli)


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from commands(below, (*path, name))
    else:
        yield " ".join(path), command


def help_of(path: str) -> str:
    answer = CliRunner().invoke(cli, [*path.split(), "--help"], terminal_width=80)
    assert answer.exit_code == 0
    return answer.output


def test_every_command_has_examples_and_every_example_a_command() -> None:
    assert set(EXAMPLES) == {path for path, _ in commands(PROGRAM)}


@pytest.mark.parametrize("path", EXAMPLES)
def test_examples_are_accepted_and_stand_in_the_help_unwrapped(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = help_of(path).splitlines()
    for line in EXAMPLES[path]:
        assert f"  {line}" in shown
        program, *words = shlex.split(line)
        assert program == "meshwright"
        command = PROGRAM
        for name in path.split():
            assert words.pop(0) == name
            command = command.commands[name]  # type: ignore[attr-defined]
        command.make_context(path, words)


def test_a_long_list_of_options_is_divided_into_sections_of_one_screen() -> None:
    for path, command in commands(PROGRAM):
        names = [own.name for own in command.params if own.param_type_name == "option"]
        if len(names) > command.longest_list:
            sections = [section_of(name) for name in names]
            assert all(sections.count(head) <= 16 for head in set(sections)), path
            assert len(set(sections)) >= 2, path


def test_every_section_names_options_and_commands_that_exist() -> None:
    options = {own.name for _, command in commands(PROGRAM) for own in command.params}
    for names in OPTION_SECTIONS.values():
        assert set(names) <= options, set(names) - options
    listed = [name for names in COMMAND_SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(PROGRAM.commands)  # type: ignore[attr-defined]


def test_the_help_of_plan_has_the_sections_in_their_order() -> None:
    lines = help_of("plan").splitlines()
    headings = [line[:-1] for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Arguments", REST, *OPTION_SECTIONS, "Examples"]


def test_the_summary_of_a_command_stands_on_one_line() -> None:
    shown = help_of("")
    below = shown[shown.index("Make plans:") :]
    assert "..." not in below
    assert "  plan      Plan a graph on a cluster.\n" in below


def test_shell_completion_is_offered() -> None:
    shown = CliRunner().invoke(
        cli, [], env={"_MESHWRIGHT_COMPLETE": "complete_bash", "COMP_WORDS": "meshwright sho",
                      "COMP_CWORD": "1"}, prog_name="meshwright",
    )  # fmt: skip
    assert "show" in shown.output.split()


def test_presets_and_kinds_of_documents_are_printed_as_json(tmp_path: Path) -> None:
    answer = CliRunner().invoke(cli, ["topologies", "--example", "2x4", "--json"])
    presets = json.loads(answer.output)
    assert "h100-2x4" in [preset["name"] for preset in presets]
    file = tmp_path / "topology.json"
    file.write_text(json.dumps(presets[0]), encoding="utf-8")
    answer = CliRunner().invoke(cli, ["validate", str(file), "--json"])
    (document,) = json.loads(answer.output)
    assert document["kind"] == "Topology"
    assert document["id"].startswith("topo_")
