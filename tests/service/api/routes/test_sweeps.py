"""Sweeps over the REST API: points as jobs, rows as they come, cancel, the same sweep again."""

from __future__ import annotations

import copy
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from meshwright.cli import main
from meshwright.client import Client
from meshwright.schema import Graph
from meshwright.schema.sweep import Sweep, SweepRow
from tests.service.conftest import Serve, server, until
from tests.service.keyed import key_of
from tests.service.samples import GRAPH, TOPOLOGY

ONE_STAGE = {"pipeline": {"ranks": 1}, "recompute": {"policy": "none"}}
SWEEP: dict[str, Any] = {
    "graph": GRAPH,
    "topologies": ["h100-1x{2,4}", TOPOLOGY],
    "batches": [8, 16],
    **ONE_STAGE,
}


def sweep_of(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(SWEEP), **changes}


def finished(service: TestClient, id_: str) -> dict[str, Any]:
    def done() -> dict[str, Any] | None:
        found: dict[str, Any] = service.get(f"/v1/sweeps/{id_}", params={"wait": 1}).json()
        return found if found["state"] != "running" else None

    found: dict[str, Any] = until(done)
    return found


def states(sweep: dict[str, Any]) -> list[str]:
    return [row["state"] for row in sweep["rows"]]


def calls(count: Path) -> int:
    return len(count.read_text().splitlines()) if count.exists() else 0


@pytest.mark.usefixtures("count")
def test_points_are_planned_and_compared(serve: Serve) -> None:
    service = serve("planning")
    body = sweep_of(prices={"h100": 2.0, "two by four": 1.0}, tokens=10**9, name="which")
    answer = service.post("/v1/sweeps", json=body)
    assert answer.status_code == 202, answer.text
    begun = answer.json()
    assert answer.headers["location"] == f"/v1/sweeps/{begun['id']}"
    assert begun["points"] == len(begun["rows"]) == 6
    sweep = finished(service, begun["id"])
    assert (sweep["state"], sweep["done"], sweep["name"]) == ("done", 6, "which")
    assert states(sweep) == ["planned"] * 6
    topologies = [row["point"]["topology"] for row in sweep["rows"]]
    assert topologies == ["h100-1x2"] * 2 + ["h100-1x4"] * 2 + ["two by four"] * 2
    assert any(row["on_front"] for row in sweep["rows"])
    for row in sweep["rows"]:
        figures = row["figures"]
        plan = service.get(f"/v1/plans/{figures['plan']}").json()
        assert plan["cost"]["step_ns"] == figures["step_ns"]
        assert figures["batch"] == row["point"]["batch"]
        assert row["price_per_hour"] == figures["devices"] * (1 if "two" in str(row) else 2)
        assert row["run_price"] == pytest.approx(row["run_days"] * 24 * row["price_per_hour"])
        SweepRow.model_validate(row)
    (entry,) = service.get("/v1/sweeps").json()["sweeps"]
    assert {name: sweep[name] for name in entry} == entry


def test_the_same_sweep_is_one_and_shares_its_points_with_plan_requests(
    serve: Serve, count: Path
) -> None:
    service = serve("counted")
    first = service.post("/v1/sweeps", json=SWEEP).json()
    finished(service, first["id"])
    assert calls(count) == 6
    again = service.post("/v1/sweeps", json=SWEEP).json()
    assert (again["id"], again["state"]) == (first["id"], "done")
    # a point more, and one that everybody may ask for
    larger = service.post("/v1/sweeps", json=sweep_of(batches=[8, 16, 32])).json()
    assert larger["id"] != first["id"]
    finished(service, larger["id"])
    assert calls(count) == 9
    one = {"graph": GRAPH, "topology": "h100-1x2", "setup": {"global_batch": 8}, **ONE_STAGE}
    assert service.post("/v1/plan", json=one).status_code == 200
    assert calls(count) == 9


def test_a_cancelled_sweep_goes_on_where_it_was(serve: Serve) -> None:
    service = serve("endless", workers=1)
    begun = service.post("/v1/sweeps", json=SWEEP).json()
    until(lambda: "searching" in states(service.get(f"/v1/sweeps/{begun['id']}").json()))
    cancelled = service.post(f"/v1/sweeps/{begun['id']}/cancel").json()
    assert set(states(cancelled)) == {"cancelled"}
    assert cancelled["state"] == "cancelled"
    again = service.post("/v1/sweeps", json=SWEEP).json()
    assert (again["id"], again["state"]) == (begun["id"], "running")
    assert set(states(again)) <= {"waiting", "searching"}
    service.post(f"/v1/sweeps/{begun['id']}/cancel")


def test_a_search_that_somebody_else_waits_for_is_not_cancelled(serve: Serve) -> None:
    service = serve(workers=0)
    alone = {"graph": GRAPH, "topology": "h100-1x2", "setup": {"global_batch": 8}, **ONE_STAGE}
    job = service.post("/v1/plan", json=alone).json()["id"]
    first = service.post("/v1/sweeps", json=SWEEP).json()
    other = service.post("/v1/sweeps", json=sweep_of(topologies=["h100-1x4"])).json()
    assert first["rows"][0]["job"] == job
    left = service.post(f"/v1/sweeps/{first['id']}/cancel").json()
    waiting = [row["job"] for row in left["rows"] if row["state"] == "waiting"]
    assert waiting == [job, *(row["job"] for row in other["rows"])]
    assert service.get(f"/v1/jobs/{job}").json()["state"] == "queued"
    # the other one queued none of them itself
    after = service.post(f"/v1/sweeps/{other['id']}/cancel").json()
    assert states(after) == ["waiting"] * 2


def test_a_deleted_plan_is_a_point_to_plan_again(serve: Serve, count: Path) -> None:
    service = serve("counted")
    begun = service.post("/v1/sweeps", json=SWEEP).json()
    plan = finished(service, begun["id"])["rows"][0]["figures"]["plan"]
    assert service.delete(f"/v1/plans/{plan}").status_code == 204
    left = service.get(f"/v1/sweeps/{begun['id']}").json()
    assert states(left).count("deleted") >= 1
    service.post("/v1/sweeps", json=SWEEP)
    assert "deleted" not in states(finished(service, begun["id"]))
    assert calls(count) == 6 + states(left).count("deleted")
    assert service.delete(f"/v1/sweeps/{begun['id']}").status_code == 204
    assert service.get(f"/v1/sweeps/{begun['id']}").status_code == 404
    assert service.delete(f"/v1/sweeps/{begun['id']}").status_code == 404
    assert service.get("/v1/plans").json()["plans"]


@pytest.mark.usefixtures("count")
def test_points_that_are_not_valid_stand_beside_the_others(serve: Serve) -> None:
    service = serve("planning")
    body = {"graph": GRAPH, "topologies": ["h100-1x2"], "module": "layers.0"}
    mixed = service.post("/v1/sweeps", json={**body, "targets": [None, "fsdp2"]}).json()
    found = finished(service, mixed["id"])
    assert states(found) == ["planned", "refused"]
    assert "fsdp2" in found["rows"][1]["reason"]
    answer = service.post("/v1/sweeps", json={**body, "targets": ["fsdp2"]})
    assert answer.status_code == 422
    assert "no point of the sweep is valid" in answer.text


@pytest.mark.parametrize(
    ("changes", "status", "pointer"),
    [
        ({"graph": None}, 422, "/graph"),
        ({"graph": "graph_0"}, 404, "/graph"),
        ({"graph": {**GRAPH, "outputs": ["z"]}}, 422, "/graph/outputs/0"),
        ({"topologies": []}, 422, "/topologies"),
        ({"topologies": ["h100-{1x2"]}, 422, "/topologies/0"),
        ({"topologies": ["h101-1x2"]}, 422, "/topologies"),
        ({"topologies": ["topo_0"]}, 404, "/topologies"),
        ({"batches": [0]}, 422, "/batches/0"),
        ({"batches": list(range(1, 200)), "sequences": [1, 2, 3]}, 422, "/topologies"),
        ({"prices": {"b200": 1.0}}, 422, "/prices"),
        ({"calibration": "cal_0"}, 404, "/calibration"),
        ({"topology": "h100-1x2"}, 422, "/topology"),
        ({"pins": [{"op": "nothing"}]}, 422, None),
    ],
)
def test_what_is_no_sweep_is_refused_with_its_place(
    serve: Serve, changes: dict[str, Any], status: int, pointer: str | None
) -> None:
    service = serve(workers=0)
    body = {name: value for name, value in sweep_of(**changes).items() if value is not None}
    answer = service.post("/v1/sweeps", json=body)
    assert answer.status_code == status, answer.text
    if pointer is not None:
        assert answer.json()["errors"][0]["pointer"] == pointer
    assert service.get("/v1/sweeps").json() == {"sweeps": []}
    assert service.get("/v1/jobs").json()["jobs"] == []


def test_a_sweep_beyond_the_jobs_of_a_tenant_queues_none(serve: Serve) -> None:
    service = serve(workers=0, max_jobs=5)
    assert service.post("/v1/sweeps", json=SWEEP).status_code == 429
    assert service.get("/v1/jobs").json()["jobs"] == []
    assert service.post("/v1/sweeps", json=sweep_of(batches=[8])).status_code == 202


def test_a_tenant_sees_its_own_sweeps_alone(serve: Serve) -> None:
    service = serve(workers=0)
    one, other = key_of(service, "admin"), key_of(service, "admin", tenant="other")
    id_ = service.post("/v1/sweeps", json=SWEEP, headers=one).json()["id"]
    assert service.get(f"/v1/sweeps/{id_}", headers=one).status_code == 200
    assert service.get(f"/v1/sweeps/{id_}", headers=other).status_code == 404
    assert service.get("/v1/sweeps", headers=other).json() == {"sweeps": []}
    assert service.post(f"/v1/sweeps/{id_}/cancel", headers=other).status_code == 404
    assert service.delete(f"/v1/sweeps/{id_}", headers=other).status_code == 404
    mine = service.post("/v1/sweeps", json=SWEEP, headers=other).json()
    assert not {row["job"] for row in mine["rows"]} & {
        row["job"] for row in service.get(f"/v1/sweeps/{id_}", headers=one).json()["rows"]
    }


def test_no_point_is_lost_or_planned_twice_where_the_service_is_killed(
    tmp_path: Path, count: Path
) -> None:
    planner = "tests.service.planners:planning"
    sweep = Sweep.from_dict({name: value for name, value in SWEEP.items() if name != "graph"})
    graph = Graph.from_dict(GRAPH)
    with server(tmp_path, planner=planner) as (url, pid), Client(url) as client:
        id_ = client.begin_sweep(graph, sweep)["id"]
        until(lambda: client.get_sweep(id_)["done"] >= 2)
        os.kill(pid, signal.SIGKILL)
    ended = count.read_text().splitlines().count("ended")
    assert ended < 6
    with server(tmp_path, planner=planner) as (url, _), Client(url) as client:
        seen: list[int] = []
        result = client.sweep(
            graph, sweep, on_rows=lambda rows: seen.append(sum(not row.is_open for row in rows))
        )
    assert [row.state for row in result.rows] == ["planned"] * 6
    assert seen == sorted(seen)
    assert seen[0] >= 2  # what was planned before is there at once
    assert count.read_text().splitlines().count("ended") <= 7  # one may have ended unstored


def test_the_command_names_the_sweep_and_follows_it(
    tmp_path: Path, count: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del count
    (tmp_path / "graph.json").write_text(json.dumps(GRAPH))
    with server(tmp_path, planner="tests.service.planners:planning") as (url, _):
        with pytest.raises(SystemExit) as ended:
            main([
                "sweep", str(tmp_path / "graph.json"), "--topology", "h100-1x{2,4}",
                "--pipeline", "none", "--server", url,
            ])  # fmt: skip
        said = capsys.readouterr()
        assert not ended.value.code, said.err
        with Client(url) as client:
            (entry,) = client.sweeps()
    assert f"sweep {entry['id']}" in said.err
    assert (entry["state"], entry["done"]) == ("done", 2)
    assert "h100-1x2" in said.out
    assert "fastest: h100-1x" in said.out
