"""The manifests in deploy/kubernetes: valid, restricted, and with settings that exist."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from typer.main import get_command

from meshwright_service.cli.main import cli
from meshwright_service.cli.server import FINISH_S
from meshwright_service.common.settings import SECRETS, Settings
from meshwright_service.observability import process_metrics, store_metrics

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "deploy" / "kubernetes"
COMPONENTS = ("autoscaling", "ingress", "monitoring")
VERSIONS = ("1.29", "1.33", kubernetes_validate.latest_version())
CUSTOM = ("ScaledObject", "PodMonitor")  # of KEDA and of the Prometheus Operator
POD_KINDS = ("Deployment", "Job")
Object = dict[str, Any]


def listed(folder: Path) -> list[Object]:
    """The objects that the kustomization of a folder names."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
    texts = [(folder / name).read_text("utf-8") for name in kustomization["resources"]]
    return [found for text in texts for found in yaml.safe_load_all(text)]


BASE = listed(FOLDER)
OBJECTS = [*BASE, *(found for name in COMPONENTS for found in listed(FOLDER / name))]


def title(found: Object) -> str:
    return f"{found['kind']} {found['metadata']['name']}"


def pods() -> Iterator[tuple[str, Object]]:
    """The pods of the manifests, by the component that they are."""
    for found in BASE:
        if found["kind"] in POD_KINDS:
            template = found["spec"]["template"]
            yield template["metadata"]["labels"]["app.kubernetes.io/component"], template["spec"]


PODS = dict(pods())
CONFIGURATION = next(found["data"] for found in BASE if found["kind"] == "ConfigMap")


def container(component: str) -> Object:
    (found,) = PODS[component]["containers"]
    return dict(found)


def test_every_file_is_listed() -> None:
    for folder in (FOLDER, *(FOLDER / name for name in COMPONENTS)):
        kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
        named = {"kustomization.yaml", *kustomization["resources"]}
        assert {path.name for path in folder.glob("*.yaml")} == named
    assert {path.name for path in FOLDER.iterdir() if path.is_dir()} == set(COMPONENTS)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "found", [found for found in OBJECTS if found["kind"] not in CUSTOM], ids=title
)
def test_an_object_is_valid(found: Object, version: str) -> None:
    kubernetes_validate.validate(found, version, strict=True)


@pytest.mark.parametrize(
    "wrong",
    [{"replicas": "two"}, {"replica": 2}, {"template": {"spec": {"containers": [{"nam": "x"}]}}}],
    ids=str,
)
def test_an_invalid_object_is_refused(wrong: Object) -> None:
    found = copy.deepcopy(next(own for own in BASE if own["kind"] == "Deployment"))
    found["spec"] |= wrong
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(found, VERSIONS[-1], strict=True)


def test_there_is_an_object_of_every_kind_that_operators_look_for() -> None:
    assert {found["kind"] for found in OBJECTS} >= {
        "ConfigMap", "Deployment", "Ingress", "Job", "NetworkPolicy", "PodDisruptionBudget",
        "PodMonitor", "ScaledObject", "Service", "ServiceAccount",
    }  # fmt: skip


def test_every_variable_is_a_setting_and_its_value_valid() -> None:
    known = {f"MESHWRIGHT_{name.upper()}" for name in Settings.model_fields}
    secrets = {f"MESHWRIGHT_{name.upper()}_FILE" for name in SECRETS}
    for component in PODS:
        own = {entry["name"]: entry["value"] for entry in container(component).get("env", [])}
        given = CONFIGURATION | own
        assert set(given) <= known | secrets
        fields = {name.removeprefix("MESHWRIGHT_").lower(): text for name, text in given.items()}
        Settings(**{name: text for name, text in fields.items() if name in Settings.model_fields})
    lines = [
        line for path in FOLDER.rglob("*.yaml") for line in path.read_text("utf-8").split("\n")
    ]
    named = re.findall(r"\bMESHWRIGHT_[A-Z_]+", "\n".join(x for x in lines if "=tcp://" not in x))
    assert set(named) <= known | secrets


def test_secrets_are_files_of_a_mounted_secret() -> None:
    files = [value for name, value in CONFIGURATION.items() if name.endswith("_FILE")]
    assert len(files) == len(SECRETS)
    for component, pod in PODS.items():
        mounts = {own["name"]: own for own in container(component)["volumeMounts"]}
        (volume,) = (own for own in pod["volumes"] if "secret" in own)
        assert mounts[volume["name"]]["readOnly"]
        for file in files:
            assert file.startswith(mounts[volume["name"]]["mountPath"] + "/")
    assert not [found for found in OBJECTS if found["kind"] == "Secret"]


@pytest.mark.parametrize("component", PODS)
def test_a_pod_has_no_rights_that_it_does_not_need(component: str) -> None:
    pod, own = PODS[component], container(component)
    assert pod["enableServiceLinks"] is False
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    user = re.search(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert user
    assert pod["securityContext"]["runAsUser"] == int(user[1])
    assert own["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {mount["mountPath"] for mount in own["volumeMounts"]} >= {"/tmp", "/data"}
    assert own["resources"]["limits"]["memory"]
    assert own["resources"]["requests"]["cpu"]


def test_commands_exist_with_their_options() -> None:
    for component in PODS:
        words = list(container(component).get("args", ["meshwright-server", "serve"]))
        assert words.pop(0) == "meshwright-server"
        command: Any = get_command(cli)
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, component


def test_ports_and_probes_are_those_of_the_service() -> None:
    for component in ("api", "worker"):
        own = container(component)
        ports = {port["name"]: port["containerPort"] for port in own["ports"]}
        assert str(ports["metrics"]) == CONFIGURATION["MESHWRIGHT_METRICS_PORT"]
        assert ports.get("http", Settings().port) == Settings().port
        for kind in ("startupProbe", "livenessProbe"):
            probe = own[kind].get("httpGet") or own[kind]["tcpSocket"]
            assert probe["port"] in ports, component
    assert container("api")["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container("api")["readinessProbe"]["httpGet"]["path"] == "/readyz"
    services = [found for found in BASE if found["kind"] == "Service"]
    for service in services:
        name = service["metadata"]["name"]
        assert name in CONFIGURATION["MESHWRIGHT_ALLOWED_HOSTS"].split(",")


def test_a_pod_has_time_to_finish() -> None:
    for component in ("api", "worker"):
        hook = container(component).get("lifecycle", {}).get("preStop", {}).get("exec", {})
        pause = int(hook.get("command", ["sleep", "0"])[1])
        assert PODS[component]["terminationGracePeriodSeconds"] >= pause + FINISH_S + 10


def test_selectors_match_pods() -> None:
    labels = [
        found["spec"]["template"]["metadata"]["labels"]
        for found in BASE
        if found["kind"] in POD_KINDS
    ]
    for found in OBJECTS:
        spec = found.get("spec", {})
        selector = spec.get("podSelector") or spec.get("selector")
        if selector:
            wanted = selector.get("matchLabels", selector)
            assert any(wanted.items() <= own.items() for own in labels), title(found)


def test_workers_scale_by_metrics_that_the_service_has() -> None:
    (scaled,) = (found for found in OBJECTS if found["kind"] == "ScaledObject")
    target = scaled["spec"]["scaleTargetRef"]["name"]
    assert target in {own["metadata"]["name"] for own in BASE if own["kind"] == "Deployment"}
    sources = "".join(
        Path(str(module.__file__)).read_text("utf-8") for module in (process_metrics, store_metrics)
    )
    queries = [trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"]]
    names = re.findall(r"meshwright_\w+", " ".join(queries))
    assert "meshwright_store_queue_age_seconds" in names
    for name in names:
        assert f'"{name}"' in sources, name


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_renders_the_base_with_all_components(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "base")
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": "plans",
        "resources": ["../base"],
        "components": [f"../base/{name}" for name in COMPONENTS],
        "images": [{"name": "meshwright", "newName": "registry.example/meshwright", "newTag": "2"}],
    }
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    made = subprocess.run(
        ["kubectl", "kustomize", tmp_path / "own"], check=True, capture_output=True, timeout=120
    )
    rendered = [found for found in yaml.safe_load_all(made.stdout) if found]
    assert sorted(map(title, rendered)) == sorted(map(title, OBJECTS))
    for found in rendered:
        if found["kind"] not in CUSTOM:
            kubernetes_validate.validate(found, VERSIONS[-1], strict=True)
        if found["kind"] in POD_KINDS:
            (own,) = found["spec"]["template"]["spec"]["containers"]
            assert own["image"] == "registry.example/meshwright:2"
        if title(found) == "Deployment meshwright-worker":
            assert "replicas" not in found["spec"]
