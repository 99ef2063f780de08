"""Every limit: what is just within is taken, one more is refused, by the name of its setting."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from starlette.testclient import TestClient

from meshwright_service.api.long_polls import LongPolls
from meshwright_service.common.errors import TooManyWaits
from meshwright_service.common.tenant import Tenant
from tests.service.conftest import Serve, until
from tests.service.keyed import state_of
from tests.service.samples import GRAPH, REQUEST

WHOLE = json.dumps(GRAPH, separators=(",", ":")).encode()
VALUES = sum(map(WHOLE.count, (b",", b"[", b"{")))
LONGEST = len("layers.0.linear")
EDGES = 6  # two ops of two inputs and one output


@pytest.mark.parametrize(
    ("setting", "value", "pointer"),
    [
        ("max_body_bytes", len(WHOLE), ""),
        ("max_body_values", VALUES, ""),
        ("max_string_chars", LONGEST, "/ops/0/name"),
        ("max_fields", len(GRAPH), ""),
        ("max_nesting", 4, "/tensors/0/shape"),
        ("max_ops", 2, "/ops"),
        ("max_edges", EDGES, "/ops"),
    ],
)
def test_a_graph_at_the_limit_is_stored_and_one_beyond_is_not(
    serve: Serve, setting: str, value: int, pointer: str
) -> None:
    within = serve(workers=0, **{setting: value})
    beyond = serve(workers=0, **{setting: value - 1})
    assert send(beyond, "/v1/graphs", WHOLE).status_code == 413
    problem = send(beyond, "/v1/graphs", WHOLE).json()
    assert problem["type"] == "urn:meshwright:problem:too-large"
    assert f"MESHWRIGHT_{setting.upper()}" in problem["detail"]
    assert problem["errors"][0]["pointer"] == pointer
    assert send(within, "/v1/graphs", WHOLE).status_code == 201


@pytest.mark.parametrize(("setting", "value"), [("max_ops", 2), ("max_edges", EDGES)])
def test_a_graph_inside_a_request_has_the_same_limits(
    serve: Serve, setting: str, value: int
) -> None:
    within = serve(workers=0, **{setting: value}).post("/v1/plan", json=REQUEST)
    beyond = serve(workers=0, **{setting: value - 1}).post("/v1/plan?fresh=true", json=REQUEST)
    assert (within.status_code, beyond.status_code) == (202, 413)
    assert beyond.json()["errors"][0]["pointer"] == "/graph/ops"


def test_waits_are_counted_for_each_tenant() -> None:
    waits = LongPolls(1)
    one, other = Tenant("one"), Tenant("other")
    with waits.one(one):
        with pytest.raises(TooManyWaits), waits.one(one):
            pass
        with waits.one(other):
            pass
    with waits.one(one):
        pass


def test_who_waits_too_often_is_asked_to_wait(serve: Serve) -> None:
    http = serve(workers=0, max_waits=1)
    job = http.post("/v1/plan", json=REQUEST).json()["id"]
    answers: list[int] = []
    first = threading.Thread(
        target=lambda: answers.append(http.get(f"/v1/jobs/{job}?wait=60").status_code)
    )
    first.start()
    until(lambda: state_of(http).waits.count(Tenant("default")))
    for path in (f"/v1/jobs/{job}?wait=1", f"/v1/jobs/{job}/events"):
        answer = http.get(path)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        assert answer.json()["type"] == "urn:meshwright:problem:too-many-waits"
    assert http.get(f"/v1/jobs/{job}").status_code == 200
    http.post(f"/v1/jobs/{job}/cancel")
    first.join(timeout=120)
    assert answers == [200]
    assert http.get(f"/v1/jobs/{job}/events").status_code == 200


def send(http: TestClient, path: str, body: bytes) -> Any:
    return http.post(path, content=body, headers={"Content-Type": "application/json"})
