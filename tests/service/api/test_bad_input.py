"""Every class of bad input gets its named error over HTTP, and nothing is stored."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
import zstandard
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from meshwright_service.api.app import create_app
from meshwright_service.common.settings import Settings
from tests.service.conftest import local
from tests.service.samples import GRAPH, TOPOLOGY, bad_graph, graph, request

JSON = {"Content-Type": "application/json"}
GRAPHS = [
    ("cycle", 422, "invalid-graph", "/ops/1", "part of a cycle"),
    ("unknown tensor", 422, "invalid-graph", "/ops/1/inputs/0", "'nowhere'"),
    ("two producers", 422, "invalid-graph", "/ops/1/outputs/0", "two producers"),
    ("shape against rule", 422, "invalid-rule", "/ops/0/rule", "3 inputs, the op has 2"),
    ("size against rule", 422, "invalid-rule", "/ops/0/rule", "has the size"),
    ("size against kind", 422, "invalid-rule", "/ops/0", "has the size"),
    ("control sequence", 422, "invalid-graph", "/name", "512 printable characters"),
    ("duplicate tensor", 422, "invalid-graph", "/tensors/1/name", "listed twice"),
    ("duplicate op", 422, "invalid-graph", "/ops/1", "listed twice"),
    ("absurd size", 422, "invalid-graph", "/tensors/0/shape", "1152921504606846976"),
    ("negative size", 422, "invalid-graph", "/tensors/0/shape", "-4"),
    ("division by zero", 422, "invalid-graph", "/tensors/0/shape", "does not divide"),
    ("not an expression", 422, "invalid-graph", "/tensors/0/shape", "tensor 'x'"),
    ("infinite attribute", 400, "not-json", None, "finite"),
    ("unknown field", 422, "invalid-graph", "/ops/0/colour", "colour"),
    ("unknown dtype", 422, "invalid-graph", "/tensors/0/dtype", "float31"),
    ("a million ops", 413, "too-large", "/ops", "1,000,000"),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """One service for all tests of this file: none of them stores anything."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("store"), max_body_bytes=8 << 20)
    with local(create_app(settings)) as client:
        yield client


@pytest.fixture
def http(service: TestClient) -> Iterator[TestClient]:
    """The service, which in the end must hold nothing."""
    yield service
    for shelf in ("graphs", "topologies", "plans", "jobs"):
        assert service.get(f"/v1/{shelf}").json()[shelf] == [], f"{shelf} are stored"


@pytest.mark.parametrize(("change", "status", "slug", "pointer", "said"), GRAPHS)
def test_a_bad_graph_is_refused_by_name(
    http: TestClient, change: str, status: int, slug: str, pointer: str | None, said: str
) -> None:
    body = json.dumps(bad_graph(change)).replace("Infinity", "1e999").encode()
    expect(http.post("/v1/graphs", content=body, headers=JSON), status, slug, pointer or "", said)


@pytest.mark.parametrize(("change", "status", "slug", "pointer", "said"), GRAPHS)
def test_a_bad_graph_inside_a_request_is_pointed_at_from_the_request(
    http: TestClient, change: str, status: int, slug: str, pointer: str | None, said: str
) -> None:
    body = json.dumps(request(graph=bad_graph(change))).replace("Infinity", "1e999").encode()
    answer = http.post("/v1/plan", content=body, headers=JSON)
    expect(answer, status, slug, "" if pointer is None else "/graph" + pointer, said)


@pytest.mark.parametrize(
    ("body", "slug", "said"),
    [
        (b"", "not-json", "not JSON"),
        (b"{", "not-json", "not JSON"),
        (b"\xff\xfe", "not-json", "not JSON"),
        (b"[]", "not-json", "a list"),
        (b"null", "not-json", "NoneType"),
        (b'{"a": NaN}', "not-json", "finite"),
        (b'{"a": Infinity}', "not-json", "finite"),
        (b'{"a": -Infinity}', "not-json", "finite"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "not-json", "digits"),
        (b"[" * 100_000, "not-json", "nested"),
        (b'{"graph": {"ops": [], "ops": [1]}}', "not-json", "'ops' is given twice"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/plan", "/plan", "/v1/graphs", "/v1/topologies"])
def test_what_is_not_json_is_refused(
    http: TestClient, path: str, body: bytes, slug: str, said: str
) -> None:
    expect(http.post(path, content=body, headers=JSON), 400, slug, "", said)


WHOLE = json.dumps(GRAPH).encode()
GZIPPED = gzip.compress(WHOLE, mtime=0)
ZSTD = zstandard.ZstdCompressor().compress(WHOLE)


@pytest.mark.parametrize(
    ("encoding", "body", "status", "slug", "said"),
    [
        ("gzip", GZIPPED[:-9], 400, "damaged-body", "cut off"),
        ("gzip", b"", 400, "damaged-body", "cut off"),
        ("gzip", WHOLE, 400, "damaged-body", "not valid gzip"),
        ("gzip", GZIPPED + b"x", 400, "damaged-body", "bytes follow"),
        ("gzip", gzip.compress(bytes(1 << 26), mtime=0), 413, "too-large", "8,388,608"),
        ("zstd", ZSTD[:-1], 400, "damaged-body", "cut off"),
        ("zstd", b"", 400, "damaged-body", "cut off"),
        ("zstd", WHOLE, 400, "damaged-body", "not valid zstd"),
        ("zstd", ZSTD + ZSTD, 400, "damaged-body", "bytes follow"),
        ("zstd", ZSTD + bytes(1000), 400, "damaged-body", "bytes follow"),
        ("zstd", zstandard.compress(bytes(1 << 30)), 413, "too-large", "8,388,608"),
        ("identity", b" " * (9 << 20), 413, "too-large", "8,388,608"),
        ("br", WHOLE, 415, "unsupported-media-type", "'br'"),
        ("gzip, gzip", WHOLE, 415, "unsupported-media-type", "gzip, gzip"),
    ],
)
def test_damaged_and_exploding_bodies_are_refused(
    http: TestClient, encoding: str, body: bytes, status: int, slug: str, said: str
) -> None:
    headers = {**JSON, "Content-Encoding": encoding}
    expect(http.post("/v1/graphs", content=body, headers=headers), status, slug, "", said)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_another_content_type_is_refused(http: TestClient, kind: str | None) -> None:
    headers = {"Content-Type": kind} if kind else {}
    answer = http.post("/v1/plan", content=b"{}", headers=headers)
    expect(answer, 415, "unsupported-media-type", "", "application/json")


@pytest.mark.parametrize(
    ("changes", "status", "slug", "pointer", "said"),
    [
        ({"topology": "h100-8"}, 422, "invalid-topology", "/topology", "h100-8x8"),
        ({"topology": "abacus-8x8"}, 422, "invalid-topology", "/topology", "abacus"),
        ({"topology": "topo_0"}, 404, "not-found", "/topology", "topo_0"),
        ({"pins": [{"op": "no", "strategy": {}}]}, 422, "invalid-request", "/pins/0/op", "'no'"),
        ({"setup": {"microbatches": 7}}, 422, "invalid-setup", "/setup/microbatches", "equal"),
        ({"graph": "graph_0"}, 404, "not-found", "/graph", "graph_0"),
        ({"graph": "llama"}, 422, "invalid-request", "/graph", "graph_"),
        ({"graph": None}, 422, "invalid-request", "/graph", "missing"),
        ({"graph": 7}, 422, "invalid-graph", "/graph", "7"),
        ({"colour": 1}, 422, "invalid-request", "/colour", "unknown field 'colour'"),
        ({"setup": {"phase": "dreaming"}}, 422, "invalid-setup", "/setup/phase", "dreaming"),
        ({"setup": {"symbols": {"width": 2}}}, 422, "invalid-graph", "/setup/symbols", "width"),
        ({"setup": {"symbols": {"batch": 0}}}, 422, "invalid-graph", "/setup/symbols", "batch"),
        ({"pins": [{"op": "", "strategy": {}}]}, 422, "invalid-request", "/pins/0/op", "1 char"),
        (
            {"pins": [{"op": "*", "strategy": {}}] * 1001},
            422,
            "invalid-request",
            "/pins",
            "at most 1000 items",
        ),
        ({"budget": {"seconds": -1}}, 422, "invalid-request", "/budget/seconds", "-1"),
        ({"budget": {"max_axes": 9}}, 422, "invalid-request", "/budget/max_axes", "9"),
        ({"solver": "oracle"}, 422, "invalid-request", "/solver", "oracle"),
        ({"degrees": {"tp": 3}}, 422, "invalid-request", "/degrees/tp", "tp 3 does not divide"),
        (
            {"degrees": {"sequence_parallel": True}},
            422,
            "invalid-request",
            "/degrees/sequence_parallel",
            "but tp is 1",
        ),
        (
            {"pipeline": {"ranks": 1, "cuts": ["a"]}},
            422,
            "invalid-request",
            "/pipeline/ranks",
            "a pipeline of one rank has no schedule",
        ),
        (
            {"constraints": {"optimizer_parallel": {"level": 0, "shard_size": 2}}},
            422,
            "invalid-request",
            "/constraints/optimizer_parallel/shard_size",
            "level 0 shards nothing",
        ),
    ],
)
def test_a_bad_part_of_a_request_is_refused_by_name(
    http: TestClient, changes: dict[str, Any], status: int, slug: str, pointer: str, said: str
) -> None:
    expect(http.post("/v1/plan", json=request(**changes)), status, slug, pointer, said)


def test_more_meshes_than_can_be_searched_are_refused(http: TestClient) -> None:
    level = {**TOPOLOGY["levels"][0], "size": 720_720}
    answer = http.post("/v1/plan", json=request(topology={**TOPOLOGY, "levels": [level]}))
    expect(answer, 413, "too-large", "/budget/max_axes", "Use a budget of 2 axes")


@pytest.mark.parametrize("size", [True, 1.5, None, [4], {}])
def test_a_size_of_the_wrong_type_is_pointed_at(http: TestClient, size: object) -> None:
    bad = graph()
    bad["tensors"][0]["shape"] = ["batch", size]
    answer = http.post("/v1/plan", json=request(graph=bad))
    expect(answer, 422, "invalid-graph", "/graph/tensors/0/shape/1", "valid string")


def test_a_bad_topology_is_refused_by_name(http: TestClient) -> None:
    broken = {**TOPOLOGY, "levels": [*TOPOLOGY["levels"], TOPOLOGY["levels"][0]]}
    answer = http.post("/v1/topologies", json=broken)
    expect(answer, 422, "invalid-topology", "/levels/2/name", "listed twice")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (graph(notes=["\ud800"]), "lone surrogate"),
        (graph(name="\ud800"), "lone surrogate"),
        ({"\ud800": 1}, ""),
        (graph(**{"\ud800": 1}), ""),
    ],
)
@pytest.mark.parametrize("path", ["/v1/plan", "/v1/graphs"])
def test_half_a_character_is_refused(
    http: TestClient, path: str, body: dict[str, Any], said: str
) -> None:
    sent = request(graph=body) if path == "/v1/plan" else body
    answer = http.post(path, content=json.dumps(sent).encode(), headers=JSON)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status", "slug"),
    [
        ("GET", "/v2/plans", 404, "no-such-endpoint"),
        ("GET", "/v1/plans/plan_0", 404, "not-found"),
        ("GET", "/v1/graphs/graph_0", 404, "not-found"),
        ("GET", "/v1/graphs/graph_0/summary", 404, "not-found"),
        ("GET", "/v1/topologies/graph_0", 404, "not-found"),
        ("GET", "/v1/jobs/job_0", 404, "not-found"),
        ("POST", "/v1/jobs/job_0/cancel", 404, "not-found"),
        ("DELETE", "/v1/plans", 405, "method-not-allowed"),
        ("GET", "/v1/plan", 405, "method-not-allowed"),
        ("GET", "/v1/plans?page_size=0", 422, "invalid-parameter"),
        ("GET", "/v1/plans?page_size=many", 422, "invalid-parameter"),
        ("GET", "/v1/plans?page_token=x", 422, "invalid-parameter"),
        ("GET", "/v1/plans?page_token=W10", 422, "invalid-parameter"),
        ("GET", "/v1/jobs?state=asleep", 422, "invalid-parameter"),
        ("GET", "/v1/jobs/job_0?wait=-1", 422, "invalid-parameter"),
        ("GET", "/v1/plans/plan_0/certificate", 404, "not-found"),
        ("POST", "/v1/plans/plan_0/certificate", 405, "method-not-allowed"),
        ("GET", "/v1/plans/plan_0/ranks/0/strategy", 404, "not-found"),
        ("GET", "/v1/plans/plan_0/ranks/-1/strategy", 422, "invalid-parameter"),
        ("GET", "/v1/graphs/%00", 404, "not-found"),
        ("GET", "/v1/jobs/a%00b/events", 404, "not-found"),
        ("GET", "/v1/plans/%0a/redistributions", 404, "not-found"),
        ("GET", "/v1/plans?graph=%00", 422, "invalid-parameter"),
        ("GET", "/v1/jobs?state=queued%00", 422, "invalid-parameter"),
        ("GET", "/v1/redistributions?from_plan=%00&to_plan=%00", 422, "invalid-parameter"),
        ("GET", "/v1/plans?page_token=WzEsICJcdWQ4MDAiXQ", 422, "invalid-parameter"),
    ],
)
def test_a_bad_address_is_a_problem_too(
    http: TestClient, method: str, path: str, status: int, slug: str
) -> None:
    expect(http.request(method, path), status, slug, "", "")


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        (
            "GET",
            "/v1/plans?grpah=x",
            "'grpah'; the parameters here are batch, calibration, ",
        ),
        (
            "GET",
            "/v1/jobs?State=failed",
            "'State'; the parameters here are kind, model, outcome, ",
        ),
        ("GET", "/v1/plans/plan_0?a", "unknown parameter 'a'; there are none here"),
        ("GET", "/v1/plans?a%00%ff=1", "unknown parameter 'a\\x00"),
        ("GET", "/v1/plans?graph=a&graph=b", "'graph' is given twice"),
        ("GET", "/healthz?deep=1", "'deep'"),
        ("POST", "/v1/plan?wait=3", "'wait'; the parameters here are "),
        ("POST", "/v1/plan?verify=true", "'verify'; the parameters here are "),
        ("POST", "/plan?fresh=true&fresh=false", "'fresh' is given twice"),
        ("POST", "/v1/jobs/job_0/cancel?now", "'now'"),
    ],
)
def test_an_unknown_parameter_is_refused_by_name(
    http: TestClient, method: str, path: str, said: str
) -> None:
    body = {} if method == "GET" else {"json": request()}
    answer = http.request(method, path, **body)
    expect(answer, 422, "invalid-parameter", "", said)


def test_a_long_value_of_a_parameter_is_not_repeated_in_full(http: TestClient) -> None:
    answer = http.get("/v1/plans", params={"page_size": "many" * 1000})
    expect(answer, 422, "invalid-parameter", "", "got 'manymany")
    assert len(answer.json()["detail"]) < 250


@pytest.mark.parametrize(
    "value", ["true", "yes", "", 1, 0, 1.0, None, [], [True], {}, {"verify": True}]
)
def test_verify_is_true_or_false(http: TestClient, value: object) -> None:
    answer = http.post("/v1/plan", json=request(verify=value))
    expect(answer, 422, "invalid-request", "/verify", "verify is true or false, got ")


@pytest.mark.parametrize("name", ["Verify", "verified", "verify "])
def test_what_only_looks_like_verify_is_unknown(http: TestClient, name: str) -> None:
    answer = http.post("/v1/plan", json=request(**{name: True}))
    expect(answer, 422, "invalid-request", f"/{name}", "module, budget, verify")


def test_verify_saves_no_bad_request(http: TestClient) -> None:
    answer = http.post("/v1/plan", json=request(verify=True, graph=bad_graph("cycle")))
    expect(answer, 422, "invalid-graph", "/graph/ops/1", "cycle")


def test_a_failure_half_way_leaves_nothing(http: TestClient) -> None:
    # the graph is good and would be stored; the topology that goes with it does not exist
    answer = http.post("/v1/plan", json=request(topology="topo_0"))
    expect(answer, 404, "not-found", "/topology", "topo_0")


def test_a_full_disk_is_not_a_fault_of_the_program(
    http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OperationalError("INSERT", {}, sqlite3.OperationalError("disk is full"))

    monkeypatch.setattr("meshwright_service.store.documents.put", full)
    answer = http.post("/v1/graphs", json=GRAPH)
    expect(answer, 503, "unavailable", "", "the database cannot answer; the server's log says why")


def expect(answer: Any, status: int, slug: str, pointer: str, said: str) -> None:
    """The answer is this problem, complete."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["title"]
    assert problem["instance"]
    assert problem["type"] == f"urn:meshwright:problem:{slug}", problem
    assert problem["errors"][0]["pointer"] == pointer
    assert said in problem["detail"], problem["detail"]
