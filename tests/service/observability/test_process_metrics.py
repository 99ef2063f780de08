"""Metrics: what is counted, who may read it, and that documents about them say what is exported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from promql_parser import AggregateExpr, Call, Expr, VectorSelector, parse, walk
from starlette.testclient import TestClient

from meshwright_costmodel.calibrations import default_calibration
from meshwright_service.observability.process_metrics import names_of
from tests.service.conftest import ROOT, Serve
from tests.service.keyed import bearing, key_of, secret_of, state_of
from tests.service.samples import REQUEST

CALIBRATED = {**REQUEST, "calibration": default_calibration().to_dict()}
BOARD: Any = json.loads((ROOT / "deploy" / "grafana.json").read_text(encoding="utf-8"))
DOCUMENTED = re.compile(r"^\| `(meshwright_\w+)` \| (\w+) \| ([^|]*)\|", re.MULTILINE)
COUNTED = ("counter", "histogram")  # what has a rate
RATES = ("rate", "increase")
OF_PROMETHEUS = {"job", "instance"}  # labels of the scrape
VALUES = re.compile(r"label_values\((\w+), (\w+)\)")  # Grafana's own, not PromQL


def sample(http: TestClient, name: str, **labels: str) -> float | None:
    """One number of /metrics."""
    for family in text_string_to_metric_families(http.get("/metrics").text):
        for one in family.samples:
            if one.name == name and one.labels == labels:
                return float(one.value)
    return None


def test_what_happens_is_counted(serve: Serve) -> None:
    http = serve(verifier="tests.service.verifiers:passing", workers=1)
    for _ in range(2):
        answer = http.post(
            "/v1/plan", json={**REQUEST, "verify": True}, headers={"Prefer": "wait=60"}
        )
        assert answer.status_code == 200
    assert http.get(answer.headers["Content-Location"]).status_code == 200
    assert http.get("/v1/plans/plan_0").status_code == 404
    assert http.get("/nowhere").status_code == 404
    plan = {"method": "GET", "route": "/v1/plans/{plan}"}
    for name, labels, value in (
        ("meshwright_http_requests_total", {**plan, "status": "200"}, 1),
        ("meshwright_http_requests_total", {**plan, "status": "404"}, 1),
        ("meshwright_http_request_seconds_count", plan, 2),
        ("meshwright_http_requests_total", {"method": "GET", "route": "none", "status": "404"}, 1),
        ("meshwright_plan_requests_total", {"answer": "queued"}, 1),
        ("meshwright_plan_requests_total", {"answer": "stored"}, 1),
        ("meshwright_job_changes_total", {"kind": "plan", "state": "running"}, 1),
        ("meshwright_jobs_ended_total",
         {"kind": "plan", "state": "succeeded", "outcome": "optimal"}, 1),
        ("meshwright_job_wait_seconds_count", {"kind": "plan"}, 1),
        ("meshwright_job_seconds_count", {"kind": "plan", "state": "succeeded"}, 1),
        ("meshwright_search_seconds_count", {}, 1),
        ("meshwright_verification_seconds_count", {}, 1),
        ("meshwright_verifications_total", {"outcome": "verified"}, 1),
        ("meshwright_workers", {}, 1),
        ("meshwright_store_up", {}, 1),
        ("meshwright_store_jobs", {"kind": "plan", "state": "succeeded"}, 1),
        ("meshwright_store_documents", {"kind": "plan"}, 1),
        ("meshwright_store_certificates", {"outcome": "verified"}, 1),
        ("meshwright_store_queue_age_seconds", {"kind": "plan"}, 0),
    ):  # fmt: skip
        assert sample(http, name, **labels) == value, (name, labels)
    assert (sample(http, "meshwright_store_bytes") or 0) > 10_000


def test_a_job_that_waits_shows_its_age_and_a_step_its_error(serve: Serve) -> None:
    http = serve()
    found = http.post("/v1/plan", json=CALIBRATED, headers={"Prefer": "wait=60"})
    step = {"step_ns": found.json()["cost"]["step_ns"] * 3}
    plan = found.headers["Content-Location"]
    assert http.post(f"{plan}/observations", json=step).is_success
    for worker in state_of(http).workers:
        worker.stop()
    assert http.post("/v1/plan?fresh=true", json=REQUEST).status_code == 202
    assert sample(http, "meshwright_store_jobs", kind="plan", state="queued") == 1
    assert 0 < (sample(http, "meshwright_store_queue_age_seconds", kind="plan") or 0) < 60
    assert sample(http, "meshwright_store_observed_ratio", quantile="0.5") == pytest.approx(3)


def test_losses_are_counted_where_they_are_found(serve: Serve) -> None:
    http = serve("dying", max_losses=2)
    job = http.post("/v1/plan", json=REQUEST).json()["id"]
    assert http.get(f"/v1/jobs/{job}?wait=60").json()["state"] == "failed"
    assert sample(http, "meshwright_job_losses_total", kind="plan") == 2
    ended = {"kind": "plan", "state": "failed", "outcome": "worker-lost"}
    assert sample(http, "meshwright_jobs_ended_total", **ended) == 1


def test_where_keys_are_only_a_key_made_in_the_shell_reads_them(serve: Serve) -> None:
    http = serve()
    admin = key_of(http, "admin")
    assert http.get("/metrics").status_code == 401
    assert http.get("/metrics", headers=admin).status_code == 403
    body = {"name": "prometheus", "scopes": ["metrics"]}
    assert http.post("/v1/keys", json=body, headers=admin).status_code == 422
    own = key_of(http, "metrics")
    assert "meshwright_store_up 1.0" in http.get("/metrics", headers=own).text
    assert http.get("/v1/plans", headers=own).status_code == 403


def test_they_name_no_tenant_key_or_job(serve: Serve) -> None:
    http = serve()
    reader, own = secret_of(http, "metrics"), bearing(secret_of(http, tenant="secretive"))
    assert http.post("/v1/plan", json=REQUEST, headers={**own, "Prefer": "wait=60"}).is_success
    text = http.get("/metrics", headers=bearing(reader)).text
    assert "meshwright_store_up 1.0" in text
    for word in ("secretive", "mw_", "job_0", "plan_", "key_"):
        assert not re.search(rf'"[^"]*{word}(?!requests)', text), word


def exported(http: TestClient) -> dict[str, tuple[str, frozenset[str]]]:
    """All metrics of an app in which everything has happened that makes a label."""
    registry: CollectorRegistry = state_of(http).metrics.registry
    return {name: (type_, labels) for name, type_, labels in names_of(registry)}


@pytest.fixture
def busy(serve: Serve) -> TestClient:
    http = serve()
    found = http.post("/v1/plan", json=CALIBRATED, headers={"Prefer": "wait=60"})
    step = {"step_ns": found.json()["cost"]["step_ns"]}
    assert http.post(f"{found.headers['Content-Location']}/observations", json=step).is_success
    return http


def test_the_table_of_the_documentation_is_what_is_exported(busy: TestClient) -> None:
    text = (ROOT / "docs" / "how-to" / "operations.md").read_text(encoding="utf-8")
    documented = {
        name: (type_, frozenset(re.findall(r"`(\w+)`", labels)))
        for name, type_, labels in DOCUMENTED.findall(text)
    }
    found = {name: of for name, of in exported(busy).items() if name.startswith("meshwright")}
    if state_of(busy).database.dialect == "postgresql":
        del documented["meshwright_store_free_bytes"]
    assert documented == found


def queries() -> Iterator[tuple[str, Expr]]:
    """Every PromQL expression of the dashboard and the alerts."""
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], parse(target["expr"].replace("$__rate_interval", "5m"))
    alerts = yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text(encoding="utf-8"))
    for rule in alerts["groups"][0]["rules"]:
        yield rule["alert"], parse(rule["expr"])


def parts(query: Expr) -> list[Any]:
    """An expression and all that it is made of."""
    found: list[Any] = []
    walk(query, found.append)
    return found


def known_series(http: TestClient) -> dict[str, tuple[str, frozenset[str]]]:
    """The type and the labels of every series that is exported."""
    free = {"meshwright_store_free_bytes": ("gauge", frozenset[str]())}  # of SQLite alone
    found = free | exported(http)
    for name, (type_, labels) in exported(http).items():
        if type_ == "histogram":
            found[f"{name}_bucket"] = type_, labels | {"le"}
            found[f"{name}_sum"] = found[f"{name}_count"] = type_, labels
    return found


def test_dashboard_and_alerts_ask_for_what_is_exported(busy: TestClient) -> None:
    known = known_series(busy)
    asked = list(queries())
    assert len(asked) > 25
    for where, query in asked:
        series = [own for own in parts(query) if isinstance(own, VectorSelector)]
        assert series, where
        for own in series:
            assert own.name in known, f"{where}: {own.name}"
            labels = {matcher.name for matcher in own.matchers.matchers}
            assert labels <= known[own.name][1] | OF_PROMETHEUS, f"{where}: {own}"
        for own in parts(query):
            if isinstance(own, AggregateExpr) and own.modifier is not None:
                below = [part.name for part in parts(own) if isinstance(part, VectorSelector)]
                for name in below:
                    assert set(own.modifier.labels) <= known[name][1], f"{where}: {own}"


def test_what_is_counted_is_asked_for_by_its_rate_and_nothing_else_is(busy: TestClient) -> None:
    known = known_series(busy)
    for where, query in queries():
        rated = [own.args[0].vector_selector.name for own in parts(query)
                 if isinstance(own, Call) and own.func.name in RATES]  # fmt: skip
        series = [own.name for own in parts(query) if isinstance(own, VectorSelector)]
        counted = [name for name in series if known[name][0] in COUNTED]
        assert rated == counted, where


def test_the_choices_of_the_dashboard_are_labels(busy: TestClient) -> None:
    known = known_series(busy)
    chosen = [own["query"]["query"] for own in BOARD["templating"]["list"]
              if own["type"] == "query"]  # fmt: skip
    assert chosen
    for query in chosen:
        found = VALUES.fullmatch(query)
        assert found, query
        assert found[2] in known[found[1]][1], query


def test_the_dashboard_has_a_place_for_every_panel() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells


def test_the_documents_that_operations_point_to_exist() -> None:
    text = (ROOT / "docs" / "how-to" / "operations.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert (ROOT / "docs" / "how-to" / target).exists(), target
