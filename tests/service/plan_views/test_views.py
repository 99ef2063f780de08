"""What the pages of a plan show is made with the plan, and kept: it is shown without reading it."""

from __future__ import annotations

import gzip
import hashlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete
from starlette.testclient import TestClient

from meshwright.common.stop_signal import StopSignal
from meshwright.planfile import PlanFile
from meshwright.schema import Plan, Request, Setup
from meshwright_costmodel.calibrations import shipped_calibration
from meshwright_service.api.app import create_app
from meshwright_service.common.settings import Settings
from meshwright_service.common.zstd import unpack
from meshwright_service.plan_views.views import views_of
from meshwright_service.store import documents
from meshwright_service.store.database import Database
from meshwright_service.store.tables import DerivedRow
from meshwright_service.workers import search_process
from meshwright_solver.planning.planner import plan as planned
from tests.service.conftest import ROOT, local
from tests.service.samples import REQUEST

DOCUMENTS = ROOT / "tests" / "data" / "documents"
PAGES = ("overview", "memory", "layout", "layout?open=net")


def pages(client: Any, plan: str) -> list[Any]:
    found = [client.get(f"/v1/plans/{plan}/{page}") for page in PAGES]
    assert [answer.status_code for answer in found] == [200] * 4
    return [answer.json() for answer in found]


def unread(*_: Any) -> None:
    raise AssertionError("the plan was read")


@contextmanager
def service(store: str, folder: Path) -> Iterator[TestClient]:
    with local(create_app(Settings(data_dir=folder, database_url=store, poll_s=0.02))) as client:
        yield client


def test_a_plan_that_was_found_is_shown_without_reading_it(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    with service(store, tmp_path) as client:
        found = client.post("/v1/plan", json=REQUEST, headers={"Prefer": "wait=60"}).json()
        plan = Plan.from_dict(found).id
        with monkeypatch.context() as without:
            without.setattr(documents, "of_plan", unread)
            kept = pages(client, plan)
        database: Database = client.app.state.service.database  # type: ignore[attr-defined]
        with database.writing() as connection:
            connection.execute(delete(DerivedRow))
    with service(store, tmp_path) as client:
        assert pages(client, plan) == kept  # made again, and kept
    monkeypatch.setattr(documents, "of_plan", unread)
    with service(store, tmp_path) as client:
        assert pages(client, plan) == kept


def test_who_has_to_end_makes_no_views(monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request.from_dict(REQUEST)
    plan = planned(request).plan
    assert plan is not None

    def asked(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("it goes on")

    with StopSignal(signal.SIGTERM) as stop:
        assert len(search_process.plan_message(plan, request, stop)["plan"]["derived"]) == 3
        monkeypatch.setattr(search_process, "views_of", lambda *_: 1 / 0)
        assert "ZeroDivisionError" in search_process.plan_message(plan, request, stop)["trace"]
        monkeypatch.setattr(search_process, "views_of", asked)
        message = search_process.plan_message(plan, request, stop)
        assert message["plan"]["id"] == plan.id
        assert message["plan"]["derived"] == {}
        assert "trace" not in message


def test_other_content_has_another_name() -> None:
    """Kept views are shown as long as their names stay: change a name with what it names."""
    content = gzip.decompress((DOCUMENTS / "wide-deep-2026-11-23.plan.json.gz").read_bytes())
    file = PlanFile.from_json(content)
    assert file.graph is not None
    assert file.topology is not None
    calibration = shipped_calibration(file.plan.calibration) or file.calibration
    assert calibration is not None
    setup = file.setup or Setup()
    found = views_of(file.plan, file.graph, file.topology, setup, calibration)
    contents = {
        name: b"".join(unpack(parts[part]) for part in sorted(parts))
        for name, parts in found.items()
    }
    assert {name: hashlib.sha256(own).hexdigest() for name, own in contents.items()} == {
        "overview 10": "c8331f578a0bdc9029d1442eb298a6f0153a4d3c187faaf40ae74f2c77bfa9fb",
        "memory 2": "f69e6c09ee5e2c12d9fb71fd309c3c82dd81fe464e3bb6d9cdaf732992c03ead",
        "drawing 1": "e58f2c0fe4030a080a861360a3d10c38000c39e5f0bb524b29e0df5da8c28fac",
    }
