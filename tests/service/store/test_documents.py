"""Graphs, topologies and plans on their shelves."""

from __future__ import annotations

import gzip
import json

import pytest
import zstandard
from starlette.testclient import TestClient

from meshwright.schema import Graph
from tests.service.conftest import Serve
from tests.service.samples import GRAPH, REQUEST, TOPOLOGY, graph

JSON = {"Content-Type": "application/json"}


def test_an_upload_is_stored_once(serve: Serve) -> None:
    http = serve(workers=0)
    first = http.post("/v1/graphs", json=GRAPH)
    again = http.post("/v1/graphs", json={**GRAPH, "schema_version": 1, "notes": []})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert first.json()["id"] == Graph.from_dict(GRAPH).id
    assert first.headers["location"] == f"/v1/graphs/{first.json()['id']}"


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "identity"])
def test_bodies_may_be_compressed(serve: Serve, encoding: str) -> None:
    body = json.dumps(GRAPH).encode()
    packed = {"gzip": gzip.compress, "zstd": zstandard.compress, "identity": bytes}[encoding](body)
    answer = serve(workers=0).post(
        "/v1/graphs", content=packed, headers={**JSON, "Content-Encoding": encoding}
    )
    assert answer.status_code == 201


def test_a_document_comes_back_in_canonical_form_with_its_digest(serve: Serve) -> None:
    http = serve(workers=0)
    id_ = http.post("/v1/graphs", json=GRAPH).json()["id"]
    answer = http.get(f"/v1/graphs/{id_}")
    assert Graph.from_json(answer.content).id == id_
    assert answer.headers["etag"] == f'"{id_}"'
    assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize("tag", ['"{}"', 'W/"{}"', '"other", "{}"', "*"])
def test_who_has_a_document_is_not_sent_it_again(serve: Serve, tag: str) -> None:
    http = serve(workers=0)
    id_ = http.post("/v1/topologies", json=TOPOLOGY).json()["id"]
    headers = {"If-None-Match": tag.format(id_)}
    answer = http.get(f"/v1/topologies/{id_}", headers=headers)
    assert (answer.status_code, answer.content) == (304, b"")
    assert answer.headers["etag"] == f'"{id_}"'
    assert http.get("/v1/topologies/topo_0", headers={"If-None-Match": "*"}).status_code == 404


def test_the_summary_of_a_graph_counts_and_folds(serve: Serve) -> None:
    http = serve(workers=0)
    id_ = http.post("/v1/graphs", json=GRAPH).json()["id"]
    summary = http.get(f"/v1/graphs/{id_}/summary").json()["summary"]
    assert summary["ops"] == 2
    assert summary["parameter_elements"] == 32  # two matrices of 4 x 4
    assert summary["parameter_bytes"] == 128
    assert summary["blocks"] == [{"module": "layers.*", "repeats": 2, "ops": 2}]


def test_a_list_comes_in_pages_the_newest_first(serve: Serve) -> None:
    http = serve(workers=0)
    names = [f"graph {number}" for number in range(7)]
    for name in names:
        http.post("/v1/graphs", json=graph(name=name))
    seen: list[dict[str, str]] = []
    token = ""
    while token is not None:
        page = http.get("/v1/graphs", params={"page_size": 3, "page_token": token}).json()
        assert len(page["graphs"]) <= 3
        seen += page["graphs"]
        token = page.get("next_page_token")
    assert sorted(entry["name"] for entry in seen) == names
    places = [(entry["created_at"], entry["id"]) for entry in seen]
    assert places == sorted(places, reverse=True)


def test_plans_can_be_found_by_graph_and_topology(serve: Serve) -> None:
    http = serve()
    wait = {"Prefer": "wait=60"}
    plan = http.post("/v1/plan", json=REQUEST, headers=wait).json()
    other = {**REQUEST, "graph": graph(name="another")}
    http.post("/v1/plan", json=other, headers=wait)
    assert _count(http) == 2
    assert _count(http, graph=plan["graph"]) == 1
    assert _count(http, topology=plan["topology"]) == 2
    assert _count(http, topology="topo_0") == 0


def _count(http: TestClient, **filters: str) -> int:
    return len(http.get("/v1/plans", params=filters).json()["plans"])
