"""Plans in the words of other systems, over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from meshwright.cli import main
from meshwright.planfile import PlanFile
from meshwright.schema import Graph, Plan, Setup, Topology
from meshwright_service.api.state import State
from meshwright_service.common.tenant import DEFAULT_TENANT
from meshwright_service.store import documents
from meshwright_service.store.encoded_documents import stored_plan
from meshwright_solver.planning.planner import plan
from tests.runtime.test_ranks import DEVICES, GRAPH, SETUP
from tests.service.conftest import Serve
from tests.solver.requests import toy_request

TARGETS = (
    "dtensor", "jax", "mindspore", "megatron-core", "mindformers", "torchtitan", "accelerate",
    "deepspeed", "graphml", "dot", "megatron",
)  # fmt: skip


def stored(client: TestClient, setup: Setup = SETUP) -> tuple[Plan, Graph, Setup, Topology]:
    """A plan of the planner's, on the shelf."""
    planned = plan(toy_request(graph=GRAPH, topology=DEVICES, setup=setup)).plan
    assert planned is not None
    service: State = client.app.state.service  # type: ignore[attr-defined]  # a FastAPI app
    with service.database.writing() as connection:
        for document in (GRAPH, setup, DEVICES):
            documents.put(connection, DEFAULT_TENANT, document, now=service.database.now)
        documents.put_plan(
            connection, DEFAULT_TENANT, stored_plan(planned), now=service.database.now
        )
    return planned, GRAPH, setup, DEVICES


def test_an_export_is_that_of_the_command_line(serve: Serve, tmp_path: Path) -> None:
    http = serve(workers=0)
    planned, graph, setup, topology = stored(http)
    file, output = tmp_path / "plan.json", tmp_path / "out"
    PlanFile(plan=planned, graph=graph, topology=topology, setup=setup).write(file)
    for target in TARGETS:
        with pytest.raises(SystemExit) as ended:
            main(["export", str(file), "--to", target, "--partial", "-o", str(output)])
        assert ended.value.code == 0
        found = http.get(f"/v1/plans/{planned.id}/exports/{target}?partial=true").json()
        if "text" in found:
            assert found["text"] == output.read_text()
        else:
            assert found == json.loads(output.read_text())


def test_a_graph_file_is_whole_and_says_what_it_is_of(serve: Serve) -> None:
    http = serve(workers=0)
    planned, *_ = stored(http)
    for target in ("graphml", "dot"):
        answer = http.get(f"/v1/plans/{planned.id}/exports/{target}")
        assert answer.status_code == 200
        found = answer.json()
        assert (found["document"], found["format"]) == (planned.id, target)
        assert (found["nodes"], found["edges"]) == (2, 1)
    assert found["text"].startswith("digraph")


def test_what_a_target_has_no_words_for_is_named(serve: Serve) -> None:
    http = serve(workers=0)
    planned, *_ = stored(http)
    path = f"/v1/plans/{planned.id}/exports/mindspore"
    answer = http.get(path)
    assert (answer.status_code, answer.json()["type"]) == (
        409,
        "urn:meshwright:problem:cannot-export",
    )
    assert "?partial=true" in answer.json()["detail"]
    assert http.get(path + "?partial=true").json()["refused"]


def test_options_that_do_not_describe_the_plan_are_refused(serve: Serve) -> None:
    """No launcher is told that gradients are summed."""
    http = serve(workers=0)
    planned, *_ = stored(http, SETUP.like(gradients="sum"))
    for target in ("megatron-core", "mindformers", "torchtitan"):
        path = f"/v1/plans/{planned.id}/exports/{target}"
        lost = http.get(path + "?partial=true").json()["lost"]
        answer = http.get(path)
        assert (answer.status_code, answer.json()["type"]) == (
            409,
            "urn:meshwright:problem:cannot-export",
        )
        assert lost
        assert all(line in answer.json()["detail"] for line in lost)


def test_an_unknown_target_or_plan_is_refused(serve: Serve) -> None:
    http = serve(workers=0)
    assert http.get("/v1/plans/plan_0/exports/jax").status_code == 404
    answer = http.get("/v1/plans/plan_0/exports/onnx")
    assert (answer.status_code, "'dtensor', 'jax'" in answer.json()["detail"]) == (422, True)


def test_the_launch_guide_leads_to_every_export(serve: Serve) -> None:
    http = serve(workers=0)
    planned, _, _, _ = stored(http)
    guide = http.get(f"/v1/plans/{planned.id}/launch").json()
    assert guide["plan"] == planned.id
    ways = {way["export"]: way for way in guide["ways"] if "export" in way}
    assert set(TARGETS) - {"megatron"} <= ways.keys()
    for target in TARGETS[:-1]:
        address = f"/v1/plans/{planned.id}/launch/{target}"
        whole = http.get(f"/v1/plans/{planned.id}/exports/{target}")
        file = http.get(address).json()
        assert file["file"] == ways[target]["file"]
        assert whole.status_code == (409 if file["losses"] else 200)
        assert ("text" in file) == (whole.status_code == 200)
        partly = http.get(f"{address}?partial=true").json()
        export = http.get(f"/v1/plans/{planned.id}/exports/{target}?partial=true").json()
        assert partly["losses"] == file["losses"]
        assert partly["text"] == export.get("text", partly["text"])
        if "text" not in export:
            assert json.loads(partly["text"]) == export
    tag = http.get(f"/v1/plans/{planned.id}/launch").headers["etag"]
    assert (
        http.get(f"/v1/plans/{planned.id}/launch", headers={"If-None-Match": tag}).status_code
        == 304
    )
