"""What is ready to deploy says what the programs understand; nobody here runs Docker."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose
from promql_parser import parse_duration
from typer.main import get_command

from meshwright_service.cli.main import cli
from meshwright_service.cli.server import FINISH_S
from meshwright_service.common.settings import SECRETS, Settings

ROOT = Path(__file__).resolve().parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
HEADER = (ROOT / "docker-compose.yml").read_text("utf-8").partition("\nx-")[0]
# of clients and training jobs (docs/clients.md, examples/launch/train.py)
CLIENT_VARIABLES = (
    "MESHWRIGHT_API_KEY",
    "MESHWRIGHT_PLAN",
    "MESHWRIGHT_SERVER",
    "MESHWRIGHT_TOPOLOGY",
)
ALERTS: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text("utf-8"))
OPERATIONS = (ROOT / "docs" / "how-to" / "operations.md").read_text(encoding="utf-8")


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
    known |= {f"MESHWRIGHT_{name.upper()}_FILE" for name in SECRETS}
    named = re.findall(r"\bMESHWRIGHT_[A-Z_]+", (ROOT / "docker-compose.yml").read_text())
    named += re.findall(r"\bMESHWRIGHT_[A-Z_]+", (ROOT / "Dockerfile").read_text())
    named += re.findall(r"\bMESHWRIGHT_[A-Z_]+", OPERATIONS)
    named = [name for name in named if name not in CLIENT_VARIABLES]
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


def test_one_image_is_built_once_and_never_fetched() -> None:
    services = COMPOSE["services"]
    (builder,) = (name for name, service in services.items() if "build" in service)
    ours = {name for name, service in services.items() if name != "postgresql"}
    assert {services[name]["image"] for name in ours} == {services[builder]["image"]}
    for name in ours:
        expected = "build" if name == builder else "never"
        assert services[name]["pull_policy"] == expected, name


def test_the_schema_is_upgraded_before_the_api_and_workers_begin() -> None:
    services = COMPOSE["services"]
    assert services["schema"]["command"] == ["meshwright-server", "db", "upgrade"]
    for name in ("api", "worker"):
        how = services[name]["depends_on"]["schema"]["condition"]
        assert how == "service_completed_successfully", name
    stop = "docker compose stop api worker"
    for text in (HEADER, OPERATIONS):
        assert text.index("docker compose build") < text.index(stop)
        assert text.index(stop) < text.index("docker compose up --detach")


def test_every_container_has_a_memory_limit_and_reaps_its_processes() -> None:
    for name, service in COMPOSE["services"].items():
        assert re.fullmatch(r"\d+[mg]", service["mem_limit"]), name
        assert service.get("init") or name == "postgresql", name


@pytest.mark.parametrize("name", ["api", "worker"])
def test_metrics_can_be_scraped_from_the_other_containers_alone(name: str) -> None:
    service = COMPOSE["services"][name]
    environment = service["environment"]
    port = environment["MESHWRIGHT_METRICS_PORT"]
    assert environment["MESHWRIGHT_METRICS_HOST"] == "0.0.0.0"
    assert service["expose"] == [port]
    assert not any(published.endswith(f":{port}") for published in service.get("ports", []))
    assert name in environment["MESHWRIGHT_ALLOWED_HOSTS"].split(",")


def test_passwords_are_files_that_no_commit_has() -> None:
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    assert not re.search(r"://[^/@\s]*:[^/@\s]*@", text)
    paths = {f"/run/secrets/{name}" for name in COMPOSE["secrets"]}
    for name, service in COMPOSE["services"].items():
        for variable, value in service.get("environment", {}).items():
            if "PASSWORD" in variable:
                assert variable.endswith("_FILE"), variable
                assert value in paths
                assert value.rpartition("/")[2] in service["secrets"], name
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    for secret in COMPOSE["secrets"].values():
        assert secret["file"].partition("/")[0] + "/" in ignored
        assert secret["file"] in HEADER


def test_containers_of_the_image_cannot_change_it() -> None:
    for name, service in COMPOSE["services"].items():
        if service["image"].startswith("meshwright"):
            assert service["read_only"], name
            assert service["tmpfs"] == ["/tmp"], name
            assert service["security_opt"] == ["no-new-privileges:true"], name
            assert service.get("user") == "root" or service["cap_drop"] == ["ALL"], name


def test_the_image_asks_for_its_health_by_its_own_settings() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    assert re.search(r'^HEALTHCHECK .*CMD \["meshwright-server", "health"\]$', text, re.MULTILINE)
    for name, service in COMPOSE["services"].items():
        serves = "command" not in service
        disabled = service.get("healthcheck", {}).get("disable", False)
        assert serves != disabled, name


def test_every_alert_is_documented_and_complete() -> None:
    rules = [rule for group in ALERTS["groups"] for rule in group["rules"]]
    documented = re.findall(r"^\| `(Meshwright\w+)` \|", OPERATIONS, re.MULTILINE)
    assert [rule["alert"] for rule in rules] == documented
    for rule in rules:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}, rule["alert"]
        parse_duration(rule.get("for", "1s"))


def test_where_all_processes_are_gone_an_alert_says_so() -> None:
    rules = {rule["alert"]: rule["expr"] for group in ALERTS["groups"] for rule in group["rules"]}
    assert rules["MeshwrightAbsent"] == "absent(meshwright_store_up)"


def example(kind: str) -> str:
    """The one example of a kind of file in docs/how-to/operations.md."""
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```$", OPERATIONS, re.MULTILINE | re.DOTALL)
    return str(found)


def test_prometheus_scrapes_the_port_of_the_compose_file() -> None:
    (job,) = yaml.safe_load(example("yaml"))["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    for name in found["names"]:
        assert COMPOSE["services"][name]["expose"] == [str(found["port"])]


def test_the_unit_runs_a_command_that_has_time_to_finish() -> None:
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]  # as configparser documents
    unit.read_string(example("ini"))
    service = unit["Service"]
    program, command = service["ExecStart"].split()
    assert program.endswith("/meshwright-server")
    root: Any = get_command(cli)
    assert command in root.commands
    assert int(service["TimeoutStopSec"]) > FINISH_S
    assert service["UMask"] == "0077"


def test_the_proxy_leaves_bodies_and_waits_alone() -> None:
    text = example("nginx")
    settings = Settings()
    body = re.search(r"client_max_body_size (\d+)m;", text)
    wait = re.search(r"proxy_read_timeout (\d+)s;", text)
    assert body
    assert wait
    assert int(body[1]) * 2**20 == settings.max_body_bytes
    assert int(wait[1]) > max(settings.max_wait_s, settings.explain_s, settings.view_s)
    for line in ("proxy_buffering off;", "proxy_set_header Host $http_host;"):
        assert line in text
