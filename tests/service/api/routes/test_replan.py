"""A plan for a job that runs under a stored one: asked of the service, and by the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meshwright.cli import main
from meshwright.client import Client
from meshwright.planfile import read_plan
from meshwright.schema import Graph, NotFound, Setup, Topology
from tests.service.conftest import Serve, server
from tests.service.samples import GRAPH, TOPOLOGY


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    return int(ended.value.code or 0)


def test_the_service_knows_the_plan_that_a_job_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    graph, devices = tmp_path / "graph.json", tmp_path / "topology.json"
    graph.write_text(json.dumps(GRAPH))
    devices.write_text(json.dumps(TOPOLOGY))
    (tmp_path / "store").mkdir()
    with server(tmp_path / "store", planner="default") as (url, _), Client(url) as client:
        on = ["--topology", str(devices), "--server", url]
        assert command("plan", str(graph), *on, "-o", str(old)) == 0
        assert command("replan", str(old), *on, "--steps", "7", "-o", str(new)) == 0
        said = capsys.readouterr().out
        found = client.plan(
            Graph.from_dict(GRAPH), Topology.from_dict(TOPOLOGY), setup=Setup(),
            from_plan=read_plan(old).plan.id, steps=7,
        ).plan  # fmt: skip
        assert found == read_plan(new).plan
        with pytest.raises(NotFound, match="no plan has the id 'plan_nobody'"):
            client.plan(
                Graph.from_dict(GRAPH), Topology.from_dict(TOPOLOGY), from_plan="plan_nobody"
            )
    assert found is not None
    assert found.move is not None
    assert (found.move.from_plan, found.move.steps) == (read_plan(old).plan.id, 7)
    assert "7 steps left" in said
    # here it is the same plan
    assert command("replan", str(old), "--topology", str(devices), "--steps", "7") == 0
    assert "same degrees" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"from_plan": 3}, "/from_plan"),
        ({"steps": 3}, "/from_plan"),
        ({"from_plan": "plan_x", "steps": 0}, "/steps"),
    ],
)
def test_what_is_wrong_is_pointed_at(serve: Serve, given: dict[str, object], pointer: str) -> None:
    answer = serve().post("/v1/plan", json={"graph": GRAPH, "topology": TOPOLOGY, **given})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_a_plan_of_another_graph_is_refused(serve: Serve) -> None:
    http = serve()
    wait = {"Prefer": "wait=60"}
    first = http.post("/v1/plan", json={"graph": GRAPH, "topology": TOPOLOGY}, headers=wait)
    plan = first.headers["content-location"].rpartition("/")[2]
    other = {**GRAPH, "name": "another"}
    answer = http.post("/v1/plan", json={"graph": other, "topology": TOPOLOGY, "from_plan": plan})
    assert answer.status_code == 422
    assert "Use the graph of the running plan" in answer.json()["detail"]
