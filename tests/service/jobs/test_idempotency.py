"""Idempotency keys: a request that is sent again comes to the job of the first, and to no other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from meshwright_service.common.tenant import Tenant
from tests.service.conftest import Serve
from tests.service.keyed import key_of, state_of
from tests.service.samples import REQUEST, request

FRESH = "/v1/plan?fresh=true"


def ask(http: TestClient, key: str, *, path: str = FRESH, **more: Any) -> httpx.Response:
    given = {"json": REQUEST, **more}
    given["headers"] = {"Idempotency-Key": key, **given.get("headers", {})}
    answer: httpx.Response = http.post(path, **given)
    return answer


def count(http: TestClient, **headers: str) -> int:
    return len(http.get("/v1/jobs", headers=headers).json()["jobs"])


@pytest.mark.parametrize("path", [FRESH, "/v1/plan"])
def test_the_same_request_is_answered_the_same(serve: Serve, path: str) -> None:
    http = serve(workers=0)
    first, again = ask(http, "a", path=path), ask(http, "a", path=path)
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.headers["location"] == again.headers["location"]
    assert first.json() == again.json()
    assert count(http) == 1


def test_another_key_or_none_searches_again(serve: Serve) -> None:
    http = serve(workers=0)
    places = [
        ask(http, "a").headers["location"],
        ask(http, "b").headers["location"],
        http.post(FRESH, json=REQUEST).headers["location"],
    ]
    assert len(set(places)) == 3


def test_a_key_with_another_request_is_refused(serve: Serve) -> None:
    http = serve(workers=0)
    ask(http, "a")
    for other in (
        ask(http, "a", json=request(setup={"microbatches": 2})),
        ask(http, "a", path="/v1/plan"),
    ):
        assert other.status_code == 422
        assert other.json()["type"] == "urn:meshwright:problem:idempotency-key-reused"
    assert count(http) == 1


def test_a_request_that_was_refused_leaves_its_key_free(serve: Serve) -> None:
    http = serve(workers=0)
    assert ask(http, "a", json=request(topology="topo_0")).status_code == 404
    assert ask(http, "a").status_code == 202


def test_a_key_of_another_tenant_tells_nothing(serve: Serve) -> None:
    http = serve(workers=0)
    one, other = key_of(http, tenant="one"), key_of(http, tenant="other")
    mine = ask(http, "a", headers=one)
    theirs = ask(http, "a", headers=other, json=request(setup={"microbatches": 2}))
    assert (mine.status_code, theirs.status_code) == (202, 202)
    assert mine.headers["location"] != theirs.headers["location"]
    assert (count(http, **one), count(http, **other)) == (1, 1)


def test_a_key_is_kept_for_its_time(serve: Serve) -> None:
    http = serve(workers=0, idempotency_s=1e-6)
    first, later = ask(http, "a"), ask(http, "a", json=request(setup={"microbatches": 2}))
    assert (first.status_code, later.status_code) == (202, 202)
    assert count(http) == 2


@pytest.mark.parametrize("key", ["", "a" * 256, "a\x7f", "ü"])
def test_a_key_that_cannot_be_one_is_refused(serve: Serve, key: str) -> None:
    http = serve(workers=0)
    answer = http.post(FRESH, json=REQUEST, headers={"Idempotency-Key": key.encode("latin-1")})
    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:meshwright:problem:invalid-parameter"


def test_of_two_processes_that_race_one_queues(serve: Serve) -> None:
    both = [serve(workers=0), serve(workers=0)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda place: ask(both[place % 2], "a"), range(16)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.headers["location"] for answer in answers}) == 1
    assert count(both[0]) == 1


def test_a_measurement_is_asked_for_once(serve: Serve) -> None:
    http = serve(workers=0)
    agent = {"name": "a", "backend": "gloo", "hosts": ["a"], "device": "cpu", "devices": 2}
    assert http.post("/v1/agents", json=agent).status_code == 201
    path = "/v1/calibrations:measure"
    places = {ask(http, "a", path=path, json={}).headers["location"] for _ in range(3)}
    assert len(places) == 1
    assert state_of(http).jobs.get(Tenant("default"), places.pop().rsplit("/", 1)[1]).kind == (
        "measurement"
    )
