"""What training jobs measure of plans, and the calibrations that it corrects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from meshwright.schema import Calibration
from meshwright_costmodel.calibrations import default_calibration
from meshwright_service.api.app import create_app
from meshwright_service.common.settings import Settings
from tests.service.conftest import local
from tests.service.samples import GRAPH

PARTS = {
    "parameters", "gradients", "optimizer", "cache", "activations", "recomputed", "working",
    "gathered", "buffers",
}  # fmt: skip
WAIT = {"Prefer": "wait=60"}
ASKED = {"graph": GRAPH, "topology": "h100-1x4"}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """The service with the real planner, one for all tests: each has a stack of its own."""
    data = tmp_path_factory.mktemp("service")
    app = create_app(Settings(data_dir=data, poll_s=0.02), planner="default")
    with local(app) as client:
        yield client


def planned(http: TestClient, **more: str) -> dict[str, object]:
    answer = http.post("/v1/plan", json={**ASKED, **more}, headers=WAIT)
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return {**found, "id": answer.headers["content-location"].rpartition("/")[2]}


def observe(http: TestClient, plan: dict[str, object], times: float, **more: object) -> dict:
    step_ns = plan["cost"]["step_ns"] * times
    answer = http.post(f"/v1/plans/{plan['id']}/observations", json={"step_ns": step_ns, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def plan(http: TestClient) -> dict[str, object]:
    return planned(http)


@pytest.fixture(scope="module")
def corrected(http: TestClient, plan: dict[str, object]) -> dict:
    """What came of a step half again as long as predicted."""
    return observe(http, plan, 1.5, stack="slow")


@pytest.fixture(scope="module")
def again(http: TestClient, corrected: dict) -> dict[str, object]:
    """The same request with the corrected calibration."""
    return planned(http, calibration=corrected["calibration"])


def test_a_measured_step_corrects_the_next_plan(
    http: TestClient, plan: dict[str, object], corrected: dict, again: dict[str, object]
) -> None:
    made = corrected
    assert made["ratio"] == pytest.approx(1.5)
    assert (made["anchor"], made["observations"]) == (pytest.approx(1.5), 1)
    own = Calibration.from_json(http.get(f"/v1/calibrations/{made['calibration']}").content)
    assert own.anchored is not None
    assert own.anchored.calibration == plan["calibration"]
    # all but latencies of links takes 1.5 times as long
    assert again["cost"]["step_ns"] == pytest.approx(1.5 * plan["cost"]["step_ns"], rel=0.05)
    assert again["calibration"] == made["calibration"]


def test_the_planner_s_own_calibration_is_stored_with_the_plan_that_names_it(
    http: TestClient, plan: dict[str, object]
) -> None:
    kept = Calibration.from_json(http.get(f"/v1/calibrations/{plan['calibration']}").content)
    assert kept == default_calibration()
    assert planned(http, calibration=kept.id)["id"] == plan["id"]


def test_the_median_counts_and_stacks_do_not_mix(http: TestClient, plan: dict[str, object]) -> None:
    for times in (1.1, 3.0, 1.2):
        made = observe(http, plan, times, stack="eager")
    assert (made["anchor"], made["observations"]) == (pytest.approx(1.2), 3)
    other = observe(http, plan, 0.9, stack="compiled")
    assert (other["anchor"], other["observations"]) == (pytest.approx(0.9), 1)
    assert other["calibration"] != made["calibration"]
    listed = http.get(f"/v1/plans/{plan['id']}/observations").json()["observations"]
    assert [entry["ratio"] for entry in listed[:4]] == pytest.approx([0.9, 1.2, 3.0, 1.1])
    assert listed[0]["observation"]["stack"] == "compiled"


def test_the_same_observation_counts_once(http: TestClient, plan: dict[str, object]) -> None:
    first = observe(http, plan, 2.0, job="a")
    body = {"step_ns": plan["cost"]["step_ns"] * 2.0, "job": "a"}
    again = http.post(f"/v1/plans/{plan['id']}/observations", json=body)
    assert again.status_code == 200
    assert again.json() == first


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422), ({"step_ns": 0}, 422), ({"step_ns": "fast"}, 422), ([1], 400),
        ({"step_ns": 5, "plan": "plan_0"}, 422), ({"step_ns": 5, "speed": 1}, 422),
        ({"step_ns": 5e-324}, 422), ({"step_ns": True}, 422),
    ],
)  # fmt: skip
def test_what_is_no_observation_is_refused(
    http: TestClient, plan: dict[str, object], body: object, status: int
) -> None:
    path = f"/v1/plans/{plan['id']}/observations"
    before = http.get(path).json()
    assert http.post(path, json=body).status_code == status
    assert http.get(path).json() == before


def test_an_observation_needs_its_plan(http: TestClient) -> None:
    answer = http.post("/v1/plans/plan_0/observations", json={"step_ns": 5})
    assert answer.status_code == 404
    assert http.get("/v1/plans/plan_0/observations").status_code == 404


def of_topology(http: TestClient, topology: object) -> dict:
    answer = http.get(f"/v1/topologies/{topology}/observations")
    assert answer.status_code == 200, answer.text
    found: dict = answer.json()
    return found


def test_a_topology_has_the_observations_of_its_plans_by_stack(http: TestClient) -> None:
    plan = planned(http, topology="h100-2x4")
    cost = plan["cost"]
    for times in (1.1, 1.5, 1.2):
        made = observe(http, plan, times, stack="eager", memory_bytes=1_000_000)
    observe(http, plan, 0.97, stack="compiled", steps=50)
    found = of_topology(http, plan["topology"])
    assert found["total"] == 4
    assert [own["ratio"] for own in found["observations"]] == pytest.approx([0.97, 1.2, 1.5, 1.1])
    stacks = {own["stack"]: own for own in found["stacks"]}
    eager, compiled = stacks["eager"], stacks["compiled"]
    assert eager["observations"] == 3
    assert eager["median"] == pytest.approx(1.2)
    assert (eager["lowest"], eager["highest"]) == (pytest.approx(1.1), pytest.approx(1.5))
    assert eager["anchored"] == made["calibration"]
    assert (compiled["observations"], compiled["plan"]) == (1, plan["id"])
    newest, *others = found["observations"]
    assert newest["predicted_step_ns"] == cost["step_ns"]
    assert (newest["steps"], "memory_bytes" in newest) == (50, False)
    memory = cost["memory_bytes"]
    used = sum(value for name, value in memory.items() if name in PARTS)
    assert {own["memory_bytes"] for own in others} == {1_000_000}
    assert {own["predicted_memory_bytes"] for own in others} == {used}


def test_a_ratio_outside_of_its_interval_is_marked(http: TestClient) -> None:
    plan = planned(http, topology="h100-4x4")
    for times in (1.0, 40.0):
        observe(http, plan, times)
    outlying, usual = of_topology(http, plan["topology"])["observations"]
    low, high = usual["interval"]
    assert low < 1 < high < 40
    assert outlying["outside"]
    assert not usual["outside"]
    (stack,) = of_topology(http, plan["topology"])["stacks"]
    assert stack["outside"] == 1


def test_one_outlying_step_is_no_measurement_of_a_link(http: TestClient) -> None:
    plan = planned(http, topology="h100-8x4")
    path = f"/v1/topologies/{plan['topology']}/rates"
    before = http.get(path).json()
    made = observe(http, plan, 1.31, stack="torchtitan")
    after = http.get(path).json()
    assert after == before
    assert not after.get("measured")
    anchored = http.get(path, params={"calibration": made["calibration"]}).json()
    assert not anchored.get("measured")
    found = of_topology(http, plan["topology"])
    assert [own["observations"] for own in found["stacks"]] == [1]


def test_a_topology_that_is_not_there_has_no_observations(http: TestClient) -> None:
    assert http.get("/v1/topologies/topo_0/observations").status_code == 404


def test_plans_of_a_corrected_calibration_correct_nothing_more(
    http: TestClient, again: dict[str, object]
) -> None:
    answer = http.post(f"/v1/plans/{again['id']}/observations", json={"step_ns": 5})
    assert answer.status_code == 422
    assert "is anchored already" in answer.json()["detail"]
    assert http.get(f"/v1/plans/{again['id']}/observations").json() == {"observations": []}
