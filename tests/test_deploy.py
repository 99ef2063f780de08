"""What is ready to deploy says what the programs understand; nobody here runs Docker."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose
from promql_parser import parse_duration
from typer.main import get_command

from service.cli import cli
from service.settings import Settings
from service.web import FINISH_S

ROOT = Path(__file__).resolve().parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
ALERTS: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text("utf-8"))
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command of `meshwright-server` in the compose file and the Dockerfile."""
    for name, service in COMPOSE["services"].items():
        command = service.get("command", [])
        if command and command[0] == "meshwright-server":
            yield name, command[1:]
    found = re.search(r'^CMD \["meshwright-server", (.*)\]$', (ROOT / "Dockerfile").read_text(),
                      re.MULTILINE)  # fmt: skip
    assert found
    yield "Dockerfile", [word.strip('" ') for word in found[1].split(",")]


def read_as_compose_does(document: dict[str, Any]) -> None:
    """Raises ValueError where a field, its type or its form is not of the Compose Specification."""
    PyCompose.from_json(json.dumps(document)).to_spec()


def test_it_is_a_compose_file() -> None:
    read_as_compose_does(COMPOSE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"restart": "sometimes"},
        {"port": ["127.0.0.1:8780:8780"]},
        {"ports": ["127.0.0.1:http:8780"]},
        {"stop_grace_period": "30 seconds"},
        {"healthcheck": {"disabled": True}},
        {"depends_on": {"schema": {"condition": "service_done"}}},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_compose_would_refuse_is_refused(wrong: dict[str, Any]) -> None:
    document = copy.deepcopy(COMPOSE)
    document["services"]["api"] |= wrong
    with pytest.raises(ValueError, match=r"."):
        read_as_compose_does(document)


def test_every_command_and_option_is_there() -> None:
    found = list(commands())
    assert {name for name, _ in found} >= {"schema", "worker", "Dockerfile"}
    for name, words in found:
        command: Any = get_command(cli)
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, name


def test_every_variable_is_a_setting() -> None:
    known = {f"MESHWRIGHT_{name.upper()}" for name in Settings.model_fields}
    named = re.findall(r"\bMESHWRIGHT_[A-Z_]+", (ROOT / "docker-compose.yml").read_text())
    named += re.findall(r"\bMESHWRIGHT_[A-Z_]+", (ROOT / "Dockerfile").read_text())
    named += re.findall(r"\bMESHWRIGHT_[A-Z_]+", OPERATIONS)
    assert len(named) > 10
    assert set(named) <= known


def test_services_and_volumes_that_are_named_exist() -> None:
    services = COMPOSE["services"]
    for name, service in services.items():
        assert "image" in service or "build" in service, name
        for other, how in service.get("depends_on", {}).items():
            assert other in services, f"{name}: {other}"
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[other], other
        for volume in service.get("volumes", []):
            assert volume.partition(":")[0] in COMPOSE["volumes"], f"{name}: {volume}"
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name} is open to other machines"


@pytest.mark.parametrize("name", ["api", "worker"])
def test_who_is_stopped_has_time_to_finish(name: str) -> None:
    given = COMPOSE["services"][name]["stop_grace_period"]
    assert int(given.removesuffix("s")) > FINISH_S


def test_every_alert_is_documented_and_complete() -> None:
    rules = [rule for group in ALERTS["groups"] for rule in group["rules"]]
    documented = re.findall(r"^\| `(Meshwright\w+)` \|", OPERATIONS, re.MULTILINE)
    assert [rule["alert"] for rule in rules] == documented
    for rule in rules:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}, rule["alert"]
        parse_duration(rule.get("for", "1s"))
