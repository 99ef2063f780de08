"""The list of plans tells the plans of one graph apart by their requests."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from sqlalchemy import delete, insert, select
from starlette.testclient import TestClient

from meshwright_service.api.state import State
from meshwright_service.common.tenant import DEFAULT_TENANT
from meshwright_service.store import plan_index
from meshwright_service.store.pagination import PageRequest
from meshwright_service.store.tables import DocumentRow, PlanRow
from tests.service.conftest import Serve
from tests.service.samples import REQUEST
from tests.service.shelved import store

MANY = 2_000


def test_a_row_has_the_options_that_its_siblings_do_not_state(serve: Serve) -> None:
    service = serve()
    for setup in ({}, {"global_batch": 64}, {"global_batch": 64, "memory_reserve": 0.2}):
        body = {**REQUEST, "setup": {**REQUEST.get("setup", {}), **setup}}
        assert service.post("/v1/plan", json=body, headers={"Prefer": "wait=60"}).is_success
    entries = service.get("/v1/plans").json()["plans"]
    texts = [entry["differs_in"] for entry in reversed(entries)]
    assert texts == ["", "batch 64", "batch 64 · reserve 20 %"]


def filled(service: TestClient, options: list[str | None]) -> State:
    """A store with plans of one graph that state these options."""
    plan = store(service, [2, 4])
    state: State = service.app.state.service  # type: ignore[attr-defined]  # a FastAPI app
    with state.database.writing() as connection:
        row = connection.execute(select(PlanRow.__table__)).one()._asdict()
        kept = select(DocumentRow.__table__).where(DocumentRow.id == plan.id)
        document = {**connection.execute(kept).one()._asdict(), "body": b""}
        rows: list[dict[str, Any]] = [
            {**row, "id": f"plan_{number:064x}", "created": row["created"] + number,
             "options": own, "step_ns": float(number + 1)}
            for number, own in enumerate(options)
        ]  # fmt: skip
        connection.execute(insert(DocumentRow), [{**document, "id": own["id"]} for own in rows])
        connection.execute(delete(PlanRow))
        connection.execute(insert(PlanRow), rows)
    return state


def test_plans_of_earlier_versions_have_no_differences(serve: Serve) -> None:
    service = serve(workers=0)
    filled(service, [None, json.dumps({"tp": "8"}), json.dumps({"tp": "8"})])
    entries = service.get("/v1/plans").json()["plans"]
    assert [entry["differs_in"] for entry in entries] == ["", "", ""]


def test_two_thousand_plans_are_listed_in_well_under_a_second(serve: Serve) -> None:
    service = serve(workers=0)
    options = [
        json.dumps({"batch": str(number % 500), "tp": str(number % 4)}) for number in range(MANY)
    ]
    state = filled(service, list(options))
    with state.database.reading() as connection:
        started_s = time.perf_counter()
        page = plan_index.list_plans(connection, DEFAULT_TENANT, PageRequest())
        seconds = time.perf_counter() - started_s
    newest = page.items[0]
    assert newest["differs_in"] == f"batch {(MANY - 1) % 500} · tp {(MANY - 1) % 4}"
    assert seconds < 0.5


@pytest.mark.parametrize("limit", [1, 7, 50])
def test_points_are_the_newest_plans_of_the_filter(serve: Serve, limit: int) -> None:
    service = serve(workers=0)
    filled(service, [None] * 30)
    answer = service.get("/v1/plans/points", params={"limit": limit, "solver": "auto"}).json()
    assert answer["total"] == 30
    steps = [point["step_ns"] for point in answer["points"]]
    assert steps == [float(number) for number in range(30, 30 - min(limit, 30), -1)]
    assert service.get("/v1/plans/points", params={"solver": "exact"}).json()["total"] == 0
    assert service.get("/v1/plans/points", params={"limit": 2001}).status_code == 422
