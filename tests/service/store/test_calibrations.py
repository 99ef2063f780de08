"""Calibrations by topology, and how they and their samples go; on both databases."""

from __future__ import annotations

import json
from typing import Any

import pytest
import zstandard
from alembic import command
from sqlalchemy import select, text
from starlette.testclient import TestClient

from meshwright.schema import Graph, Setup
from meshwright.schema.samples import Samples
from meshwright.schema.topology_rates import TopologyRates
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.fitting import fit_calibration
from meshwright_costmodel.topology_rates import rates_in
from meshwright_service.common.tenant import DEFAULT_TENANT
from meshwright_service.store import documents
from meshwright_service.store.tables import CalibratedRow, PlanRow
from tests.costmodel.test_fitting import samples
from tests.service.conftest import Serve
from tests.service.keyed import key_of, state_of
from tests.service.samples import GRAPH, TOPOLOGY
from tests.service.shelved import store, store_for
from tests.service.store.test_database import migrated_to

AGENT = {"name": "a", "backend": "nccl", "hosts": ["h"], "device": "x", "devices": 16}


@pytest.fixture
def http(serve: Serve) -> TestClient:
    return serve(workers=0)


def elsewhere() -> Samples:
    """The same times, measured in another topology."""
    own = samples()
    there = own.topology.model_copy(update={"name": "elsewhere"})
    return own.model_copy(update={"topology": there})


def listed(http: TestClient, topology: str, **headers: str) -> list[str]:
    answer = http.get("/v1/calibrations", params={"topology": topology}, headers=headers)
    assert answer.status_code == 200, answer.text
    return [own["id"] for own in answer.json()["calibrations"]]


def kind_of(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].removeprefix("urn:meshwright:problem:")


def test_calibrations_are_found_by_the_topology_they_were_measured_in(http: TestClient) -> None:
    here = http.post("/v1/samples", json=samples().to_dict()).json()
    there = http.post("/v1/samples", json=elsewhere().to_dict()).json()
    assert http.post("/v1/calibrations", json=default_calibration().to_dict()).status_code == 201
    assert listed(http, here["topology"]) == [here["calibration"]]
    assert listed(http, there["topology"]) == [there["calibration"]]
    assert listed(http, "topo_0") == []
    every = http.get("/v1/calibrations").json()["calibrations"]
    assert {own["id"]: own["topologies"] for own in every} == {
        default_calibration().id: [],
        here["calibration"]: [here["topology"]],
        there["calibration"]: [there["topology"]],
    }


def test_a_calibration_that_comes_by_itself_is_of_its_samples_topology(http: TestClient) -> None:
    own = samples()
    named = fit_calibration(own).model_copy(update={"name": "a copy"})
    http.post("/v1/calibrations", json=named.to_dict())
    assert listed(http, own.topology.id) == []  # nobody knows the samples
    http.post("/v1/samples", json=own.to_dict())
    other = named.model_copy(update={"name": "a second copy"})
    http.post("/v1/calibrations", json=other.to_dict())
    http.post("/v1/calibrations", json=named.to_dict())
    assert set(listed(http, own.topology.id)) == {named.id, other.id, fit_calibration(own).id}


def test_what_an_agent_measured_or_a_job_observed_is_of_that_topology(http: TestClient) -> None:
    own = samples()
    agent = http.post("/v1/agents", json=AGENT).json()["id"]
    job = http.post("/v1/calibrations:measure", json={}).json()["id"]
    assert http.post(f"/v1/agents/{agent}/lease").json()["measurement"]["id"] == job
    results = f"/v1/agents/{agent}/measurements/{job}/results"
    made = http.post(results, json={"attempt": 1, "samples": own.to_dict()}).json()["stored"]
    assert listed(http, own.topology.id) == [made["calibration"]]
    entry, ended = http.get(f"/v1/agents/{agent}").json(), http.get(f"/v1/jobs/{job}").json()
    assert entry["calibration"] == made["calibration"]
    assert entry["measured_at"] == ended["finished_at"]
    plan = store(http, [2, 4])
    step = {"step_ns": plan.cost.step_ns * 2, "stack": "s"}
    anchored = http.post(f"/v1/plans/{plan.id}/observations", json=step).json()["calibration"]
    assert listed(http, plan.topology) == [anchored]


def test_what_a_plan_or_another_needs_is_refused_and_all_goes_in_order(http: TestClient) -> None:
    own = samples()
    made = http.post("/v1/samples", json=own.to_dict()).json()
    measured, calibration = f"/v1/samples/{made['id']}", f"/v1/calibrations/{made['calibration']}"
    plan = store_for(
        http, Graph.from_dict(GRAPH), own.topology, Setup(), calibration=fit_calibration(own)
    )
    (found,) = http.get("/v1/plans", params={"calibration": made["calibration"]}).json()["plans"]
    assert found["id"] == plan.id
    assert http.get("/v1/plans", params={"calibration": "cal_0"}).json()["plans"] == []
    assert kind_of(http.delete(calibration)) == (409, "in-use")
    assert kind_of(http.delete(measured)) == (409, "in-use")
    assert made["calibration"] in http.delete(measured).json()["detail"]
    for path in (f"/v1/plans/{plan.id}", calibration, measured):
        assert http.delete(path).status_code == 204
        assert http.get(path).status_code == 404
        assert kind_of(http.delete(path)) == (404, "not-found")
    assert listed(http, made["topology"]) == []
    again = http.post("/v1/samples", json=own.to_dict())
    assert (again.status_code, again.json()) == (201, made)
    assert listed(http, made["topology"]) == [made["calibration"]]


def test_an_open_job_keeps_its_calibration_and_an_ended_one_goes_with_it(http: TestClient) -> None:
    made = http.post("/v1/samples", json=samples().to_dict()).json()
    path = f"/v1/calibrations/{made['calibration']}"
    body = {"graph": GRAPH, "topology": "h100-1x4", "calibration": made["calibration"]}
    job = http.post("/v1/plan", json=body).json()["id"]
    refused = http.delete(path)
    assert kind_of(refused) == (409, "in-use")
    assert job in refused.json()["detail"]
    http.post(f"/v1/jobs/{job}/cancel")
    assert http.delete(path).status_code == 204
    assert http.get(f"/v1/jobs/{job}").status_code == 404
    assert http.post("/v1/plan", json=body).status_code == 404


def test_a_measurement_goes_with_its_calibration(http: TestClient) -> None:
    agent = http.post("/v1/agents", json=AGENT).json()["id"]
    job = http.post("/v1/calibrations:measure", json={}).json()["id"]
    http.post(f"/v1/agents/{agent}/lease")
    results = f"/v1/agents/{agent}/measurements/{job}/results"
    body = {"attempt": 1, "samples": samples().to_dict()}
    made = http.post(results, json=body).json()["stored"]
    assert http.delete(f"/v1/calibrations/{made['calibration']}").status_code == 204
    assert http.get(f"/v1/jobs/{job}").status_code == 404
    assert http.get(f"/v1/samples/{made['id']}").status_code == 200
    assert http.delete(f"/v1/samples/{made['id']}").status_code == 204


def test_a_tenant_s_calibrations_are_its_own_to_find_and_to_delete(http: TestClient) -> None:
    one, other = key_of(http, "admin", tenant="one"), key_of(http, "admin", tenant="other")
    reader = key_of(http, "read", "plan", "agent", tenant="one")
    made = http.post("/v1/samples", json=samples().to_dict(), headers=one).json()
    calibration = f"/v1/calibrations/{made['calibration']}"
    assert listed(http, made["topology"], **other) == []
    assert http.delete(calibration, headers=other).status_code == 404
    http.post("/v1/samples", json=samples().to_dict(), headers=other)
    assert http.delete(calibration, headers=reader).status_code == 403
    assert http.delete(calibration, headers=one).status_code == 204
    assert listed(http, made["topology"], **one) == []
    assert listed(http, made["topology"], **other) == [made["calibration"]]
    with state_of(http).database.reading() as connection:
        assert len(connection.execute(select(CalibratedRow.__table__)).all()) == 1


def test_what_was_there_before_is_found_too(empty: str) -> None:
    database, config = migrated_to(empty, "0010")
    own, plan = samples(), {"calibration": "cal_p"}
    calibration = fit_calibration(own)
    with database.writing() as connection:
        for document in (own, calibration, default_calibration()):
            documents.put(connection, DEFAULT_TENANT, document, now=database.now)
        row = {"body": zstandard.compress(json.dumps(plan).encode()), "id": "plan_p"}
        connection.execute(
            text(
                "INSERT INTO documents (id, kind, name, created, content_bytes, summary, body) "
                "VALUES (:id, 'plan', '', 1, 2, '{}', :body)"
            ), row,
        )  # fmt: skip
        for statement in (
            "INSERT INTO holdings VALUES ('default', 'plan_p', 'plan', 1)",
            "INSERT INTO plans (tenant, id, created, graph, topology, summary) "
            "VALUES ('default', 'plan_p', 1, 'plan_p', 'plan_p', '{}')",
        ):
            connection.execute(text(statement))
    database.upgrade()
    with database.reading() as connection:
        (found,) = connection.execute(select(CalibratedRow.__table__)).all()
        assert tuple(found) == (DEFAULT_TENANT, own.topology.id, calibration.id)
        named = select(PlanRow.calibration).where(PlanRow.id == "plan_p")
        assert connection.execute(named).scalar_one() == plan["calibration"]
    with database.writing() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0010")
    database.upgrade()
    assert database.is_current()
    database.close()


def test_rates_are_by_what_was_measured_last_or_what_is_named_or_the_default(
    http: TestClient,
) -> None:
    own = samples()
    http.post("/v1/topologies", json=own.topology.to_dict())
    path = f"/v1/topologies/{own.topology.id}/rates"
    bare = TopologyRates.from_json(http.get(path).content)
    assert bare == rates_in(own.topology, default_calibration())
    made = http.post("/v1/samples", json=own.to_dict()).json()
    found = TopologyRates.from_json(http.get(path).content)
    assert found == rates_in(own.topology, fit_calibration(own), measured=True)
    named = http.get(path, params={"calibration": default_calibration().id}).json()
    assert (named["calibration"], named["measured"]) == (default_calibration().id, False)
    assert found.calibration == made["calibration"]
    assert kind_of(http.get(path, params={"calibration": "cal_0"})) == (404, "not-found")
    assert kind_of(http.get("/v1/topologies/topo_0/rates")) == (404, "not-found")


@pytest.mark.parametrize("rate", [1e308, 5e-324])
@pytest.mark.parametrize("field", ["flops", "memory", "link"])
def test_of_numbers_beyond_all_computing_nothing_is_said(
    http: TestClient, field: str, rate: float
) -> None:
    own = TOPOLOGY | {"device": {**TOPOLOGY["device"]}}
    if field == "flops":
        own["device"]["flops_per_s"] = {"float32": rate}
    elif field == "memory":
        own["device"]["memory_bytes_per_s"] = rate
    else:
        link = {"kind": "x", "bytes_per_s": rate, "latency_ns": 0}
        own["levels"] = [{"name": "gpu", "size": 4, "link": link}]
    made = http.post("/v1/topologies", json=own)
    assert made.is_success, made.text
    answer = http.get(f"/v1/topologies/{made.json()['id']}/rates")
    assert answer.status_code in (200, 422), answer.text
    if answer.status_code == 422:
        assert "nothing can be computed" in answer.json()["detail"]


def test_samples_of_more_operations_than_numbers_hold_are_no_fault_of_ours(
    http: TestClient,
) -> None:
    own = samples()
    calibration = fit_calibration(own)
    huge = own.kernels[0].model_copy(update={"flops": 1e308, "bytes_moved": 1e308, "ns": 1.0})
    odd = own.model_copy(update={"kernels": (huge, *own.kernels[1:])})
    fitted = calibration.fitted
    assert fitted is not None
    named = fitted.model_copy(update={"samples": odd.id})
    other = calibration.model_copy(update={"fitted": named})
    with state_of(http).database.writing() as connection:
        for document in (odd, other):
            documents.put(connection, DEFAULT_TENANT, document, now=state_of(http).database.now)
    refused = http.post("/v1/samples", json=odd.to_dict())
    assert refused.status_code == 422
    assert "nothing can be computed" in refused.json()["detail"]
    answer = http.get(f"/v1/calibrations/{other.id}/residuals")
    assert answer.status_code == 422
    assert "nothing can be computed" in answer.json()["detail"]


def asked_for(http: TestClient, headers: dict[str, str] | None = None, **more: Any) -> Any:
    """The job of a request for the topology of the samples."""
    body = {"graph": GRAPH, "topology": samples().topology.to_dict(), **more}
    answer = http.post("/v1/plan", json=body, headers=headers or {})
    assert answer.status_code == 202, answer.text
    return answer.json()


def test_a_plan_is_made_with_the_newest_calibration_of_its_topology(http: TestClient) -> None:
    published = asked_for(http)
    assert "calibration" not in published
    http.post("/v1/samples", json=elsewhere().to_dict())
    assert asked_for(http)["id"] == published["id"]
    older = http.post("/v1/samples", json=samples().to_dict()).json()["calibration"]
    assert asked_for(http)["calibration"] == older
    later = samples().model_copy(update={"measured_at": "2026-11-23T10:00:00Z"})
    newer = http.post("/v1/samples", json=later.to_dict()).json()["calibration"]
    assert newer != older
    job = asked_for(http)
    assert (job["calibration"], job["id"]) == (newer, asked_for(http, calibration=newer)["id"])
    assert http.get(f"/v1/jobs/{job['id']}/request").json()["calibration"] == newer
    assert asked_for(http, calibration=older)["calibration"] == older
    assert len({asked_for(http, calibration=id_)["id"] for id_ in (older, newer)}) == 2


def test_that_of_another_tenant_is_none(http: TestClient) -> None:
    one, other = key_of(http, tenant="one"), key_of(http, tenant="other")
    assert http.post("/v1/samples", json=samples().to_dict(), headers=one).status_code == 201
    assert "calibration" in asked_for(http, one)
    assert "calibration" not in asked_for(http, other)


def test_a_reported_step_changes_no_request(http: TestClient) -> None:
    own = samples()
    made = http.post("/v1/samples", json=own.to_dict()).json()
    plan = store_for(
        http, Graph.from_dict(GRAPH), own.topology, Setup(), calibration=fit_calibration(own)
    )
    step = {"plan": plan.id, "step_ns": 1.1 * plan.cost.step_ns, "stack": "s"}
    anchored = http.post(f"/v1/plans/{plan.id}/observations", json=step).json()["calibration"]
    assert listed(http, own.topology.id)[0] == anchored
    assert asked_for(http)["calibration"] == made["calibration"]
    rates = http.get(f"/v1/topologies/{own.topology.id}/rates").json()
    assert (rates["calibration"], rates["measured"]) == (made["calibration"], True)


def test_a_reported_step_measures_no_link(http: TestClient) -> None:
    plan = store(http, [2, 4])
    path = f"/v1/topologies/{plan.topology}/rates"
    before = http.get(path).json()
    step = {"step_ns": 2 * plan.cost.step_ns, "stack": "s"}
    anchored = http.post(f"/v1/plans/{plan.id}/observations", json=step).json()["calibration"]
    assert http.get(path).json() == before
    assert before["calibration"] == default_calibration().id
    named = http.get(path, params={"calibration": anchored}).json()
    assert (named["calibration"], named["measured"]) == (anchored, False)
    entries = http.get("/v1/calibrations", params={"topology": plan.topology}).json()
    (entry,) = entries["calibrations"]
    assert entry["summary"]["observations"] == 1
