"""Example graphs over HTTP: listed, read and stored as any graph is."""

from __future__ import annotations

from meshwright.capture.published_decoders import PUBLISHED
from meshwright.schema import Graph
from tests.service.conftest import Serve


def test_every_example_is_a_graph_that_the_service_takes(serve: Serve) -> None:
    http = serve(workers=0)
    listed = http.get("/v1/examples").json()["examples"]
    assert [own["name"] for own in listed] == list(PUBLISHED)
    for own in listed:
        text = http.get(f"/v1/examples/{own['name']}").text
        graph = Graph.from_json(text)
        assert graph.name == own["name"]
        assert dict(graph.symbols) == own["symbols"]
        stored = http.post("/v1/graphs", content=text, headers={"Content-Type": "application/json"})
        assert stored.status_code == 201
        assert stored.json()["id"] == graph.id


def test_an_unknown_example_names_the_known_ones(serve: Serve) -> None:
    answer = serve(workers=0).get("/v1/examples/none")
    assert answer.status_code == 404
    assert "llama3-8b" in answer.json()["detail"]
