"""The shelf of plans: labels, filters, who asked."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import delete, insert, select
from starlette.testclient import TestClient

from meshwright.schema import Plan
from meshwright_service.api.state import State
from meshwright_service.common.tenant import DEFAULT_TENANT
from meshwright_service.store import plan_index
from meshwright_service.store.pagination import PageRequest
from meshwright_service.store.plan_index import PlanFilter
from meshwright_service.store.tables import DocumentRow, LabelRow, PlanRow
from tests.service.conftest import Serve
from tests.service.keyed import key_of
from tests.service.samples import REQUEST
from tests.service.shelved import store

MANY = 1_000


@pytest.fixture
def service(serve: Serve) -> TestClient:
    return serve(workers=0)


def change(service: TestClient, plan: Plan | str, **body: Any) -> Any:
    id_ = plan if isinstance(plan, str) else plan.id
    return service.patch(f"/v1/plans/{id_}/labels", json=body)


def listed(service: TestClient, **given: str) -> list[str]:
    answer = service.get("/v1/plans", params=given)
    assert answer.status_code == 200, answer.text
    return [own["id"] for own in answer.json()["plans"]]


def test_labels_are_given_and_taken(service: TestClient) -> None:
    plan = store(service, [2, 4])
    assert change(service, plan, add=["prod", "a b"]).json()["labels"] == ["a b", "prod"]
    assert change(service, plan, add=["prod"]).json()["labels"] == ["a b", "prod"]
    assert change(service, plan, remove=["a b", "never"]).json()["labels"] == ["prod"]
    assert change(service, plan, add=["x"], remove=["x"]).json()["labels"] == ["prod", "x"]
    assert service.get(f"/v1/plans/{plan.id}/labels").json()["labels"] == ["prod", "x"]
    (entry,) = service.get("/v1/plans").json()["plans"]
    assert entry["labels"] == ["prod", "x"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"add": [""]}, "/add/0"),
        ({"add": ["ok", "x" * 65]}, "/add/1"),
        ({"add": ["new\nline"]}, "/add/0"),
        ({"add": [" blank"]}, "/add/0"),
        ({"add": [f"l{k}" for k in range(33)]}, "/add"),
        ({"colour": "red"}, "/colour"),
        ({"add": "prod"}, "/add"),
    ],
)
def test_what_is_no_label_is_refused(service: TestClient, body: Any, pointer: str) -> None:
    plan = store(service, [2, 4])
    answer = change(service, plan, **body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert service.get(f"/v1/plans/{plan.id}/labels").json()["labels"] == []


def test_too_many_labels_in_all_are_refused_whole(service: TestClient) -> None:
    plan = store(service, [2, 4])
    assert change(service, plan, add=[f"a{k}" for k in range(20)]).status_code == 200
    assert change(service, plan, add=[f"b{k}" for k in range(20)]).status_code == 422
    assert len(service.get(f"/v1/plans/{plan.id}/labels").json()["labels"]) == 20


def test_a_plan_that_is_not_there_has_no_labels(service: TestClient) -> None:
    assert change(service, "plan_0", add=["a"]).status_code == 404
    assert service.get("/v1/plans/plan_0/labels").status_code == 404


def test_plans_are_filtered_by_when_they_were_stored(service: TestClient) -> None:
    plan = store(service, [2, 4])
    (entry,) = service.get("/v1/plans").json()["plans"]
    at = datetime.fromisoformat(entry["created_at"])
    just_after = at + timedelta(milliseconds=1)  # what the list shows is cut to milliseconds
    assert listed(service, since=at.isoformat(), until=just_after.isoformat()) == [plan.id]
    assert listed(service, until=at.isoformat()) == []
    assert listed(service, since=just_after.isoformat()) == []
    elsewhere = at.astimezone(timezone(timedelta(hours=-7)))
    assert listed(service, since=elsewhere.isoformat()) == [plan.id]
    for wrong in ("yesterday", "2026-11-23T00:00:00", "0.5", "1795392000"):
        answer = service.get("/v1/plans", params={"since": wrong})
        assert answer.status_code == 422
        assert "since" in answer.text


def test_plans_are_filtered_by_what_people_know_of_them(service: TestClient) -> None:
    small, large = store(service, [2, 4]), store(service, [4, 4])
    change(service, small, add=["prod", "100%"])
    change(service, large, add=["test_1"])
    both = {small.id, large.id}
    assert {*listed(service)} == both
    assert {*listed(service, model="TWO *")} == both
    assert listed(service, model="two") == []
    assert listed(service, label="pro?") == [small.id]
    assert listed(service, label="test_?") == [large.id]
    # what is special to SQL is a letter here
    assert listed(service, label="%") == []
    assert listed(service, label="test%") == []
    assert listed(service, label="100%") == [small.id]
    assert listed(service, label="testx1") == []
    assert listed(service, topology=small.topology) == [small.id]
    assert {*listed(service, solver="auto")} == both
    assert listed(service, solver="exact") == []
    assert {*listed(service, outcome=small.search.outcome)} >= {small.id}
    assert listed(service, certificate="verified") == []
    assert service.get("/v1/plans", params={"solver": "magic"}).status_code == 422


def test_a_plan_says_who_asked_for_it(serve: Serve) -> None:
    service = serve()
    key = key_of(service, "admin")
    made = service.post("/v1/plan", json=REQUEST, headers={**key, "Prefer": "wait=60"})
    assert made.status_code == 200
    (entry,) = service.get("/v1/plans", headers=key).json()["plans"]
    (own,) = service.get("/v1/keys", headers=key).json()["keys"]
    assert (entry["key"], entry["key_name"]) == (own["id"], own["name"])
    found = service.get("/v1/plans", params={"key": own["id"]}, headers=key).json()["plans"]
    assert [one["id"] for one in found] == [entry["id"]]
    assert service.get("/v1/plans", params={"key": "key_0"}, headers=key).json()["plans"] == []


FIGURES = ("step_ns", "units_per_s", "device_rate", "utilization", "headroom", "devices", "batch")
SORTED_BY = dict(
    zip(
        ("step", "throughput", "device_throughput", "utilization", "headroom", "devices", "batch"),
        FIGURES,
        strict=True,
    )
)


def fill(service: TestClient, count: int, seed: int) -> list[dict[str, Any]]:
    """So many plans with random figures, some of them without and many alike."""
    plan, draw = store(service, [2, 4]), random.Random(seed)
    state: State = service.app.state.service  # type: ignore[attr-defined]  # a FastAPI app
    with state.database.writing() as connection:
        row = connection.execute(select(PlanRow.__table__)).one()._asdict()
        stored = select(DocumentRow.__table__).where(DocumentRow.id == plan.id)
        document = {**connection.execute(stored).one()._asdict(), "body": b""}
        rows = []
        for number in range(count):
            figures = {
                name: draw.choice([None, -1.0, 0.0, 0.125, float(draw.randrange(8))])
                for name in FIGURES
            }
            target = draw.choice(["", "fsdp2"])
            rows.append({**row, "id": f"plan_{number:064x}", **figures, "target": target})
        connection.execute(insert(DocumentRow), [{**document, "id": own["id"]} for own in rows])
        connection.execute(delete(PlanRow))
        connection.execute(insert(PlanRow), rows)
    return rows


@pytest.mark.parametrize("seed", range(3))
def test_all_plans_are_sorted_page_by_page(service: TestClient, seed: int) -> None:
    rows = fill(service, 60, seed)
    for sort, column in SORTED_BY.items():
        for sign in ("", "-"):
            found: list[str] = []
            token: str | None = None
            while token is not None or not found:
                query = {"sort": sign + sort, "page_size": 7}
                query |= {} if token is None else {"page_token": token}
                answer = service.get("/v1/plans", params=query).json()
                found += [own["id"] for own in answer["plans"]]
                token = answer.get("next_page_token")
            values = {row["id"]: row[column] for row in rows}
            assert sorted(found) == sorted(values)
            known = [values[id_] for id_ in found if values[id_] is not None]
            assert known == sorted(known, reverse=bool(sign))
            assert None not in [values[id_] for id_ in found[: len(known)]]  # they are the last


def test_plans_are_filtered_by_their_figures(service: TestClient) -> None:
    rows = fill(service, 60, 7)

    def having(condition: Any) -> list[str]:
        return sorted(row["id"] for row in rows if condition(row))

    def found(**query: Any) -> list[str]:
        return sorted(listed(service, page_size="100", **query))

    def room(row: dict[str, Any], least: float) -> bool:
        return row["headroom"] is not None and row["headroom"] >= least

    assert found(fits="true") == having(lambda row: room(row, 0))
    assert found(fits="false") == having(lambda row: row["headroom"] == -1)
    assert found(headroom="0.1") == having(lambda row: room(row, 0.1))
    assert found(batch="3") == having(lambda row: row["batch"] == 3)
    assert found(devices="3") == having(lambda row: row["devices"] == 3)
    assert found(target="fsdp2") == having(lambda row: row["target"] == "fsdp2")
    assert found(target="none") == having(lambda row: row["target"] == "")
    for wrong in ({"sort": "beauty"}, {"target": "fsdp3"}, {"headroom": "2"}, {"fits": "maybe"}):
        assert service.get("/v1/plans", params=wrong).status_code == 422


def test_a_planned_request_has_its_figures_in_the_list(serve: Serve) -> None:
    service = serve()
    assert service.post("/v1/plan", json=REQUEST, headers={"Prefer": "wait=60"}).is_success
    (entry,) = service.get("/v1/plans", params={"sort": "-throughput"}).json()["plans"]
    figures = entry["figures"]
    assert (figures["batch"], figures["sequence"]) == (8, 16)
    assert figures["samples_per_s"] == pytest.approx(8e9 / entry["step_ns"])
    assert figures["tokens_per_s"] == pytest.approx(16 * figures["samples_per_s"])


def test_a_long_list_is_filtered(service: TestClient) -> None:
    plan = store(service, [2, 4])
    state: State = service.app.state.service  # type: ignore[attr-defined]  # a FastAPI app
    with state.database.writing() as connection:
        own = connection.execute(select(PlanRow.__table__)).one()._asdict()
        document = (
            connection.execute(select(DocumentRow.__table__).where(DocumentRow.id == plan.id))
            .one()
            ._asdict()
        )
        ids = [f"plan_{k:064x}" for k in range(MANY)]
        small = {**document, "body": b""}
        connection.execute(insert(DocumentRow), [{**small, "id": id_} for id_ in ids])
        connection.execute(insert(PlanRow), list(_rows(own, ids)))
        labels = [{"tenant": DEFAULT_TENANT, "plan": id_, "label": f"l{k % 100}"}
                  for k, id_ in enumerate(ids)]  # fmt: skip
        connection.execute(insert(LabelRow), labels)
    for wanted, count in (
        (PlanFilter(), 50),
        (PlanFilter(model="model 7*"), 50),
        (PlanFilter(label="l7?"), 50),
        (PlanFilter(label="l77"), 10),
        (PlanFilter(solver="exact", model="*", label="*"), 0),
        (PlanFilter(label="nothing"), 0),
    ):
        with state.database.reading() as connection:
            found = plan_index.list_plans(connection, DEFAULT_TENANT, PageRequest(), wanted)
        assert len(found.items) == count, wanted


def _rows(own: dict[str, Any], ids: list[str]) -> Iterable[dict[str, Any]]:
    for k, id_ in enumerate(ids):
        yield {**own, "id": id_, "created": own["created"] + k, "model": f"model {k % 10}"}
