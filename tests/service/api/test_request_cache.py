"""Requests that are known by their bytes: the same answers, and nothing of another tenant's."""

from __future__ import annotations

from meshwright_service.api.plan_request import PlanOrder
from meshwright_service.api.request_cache import LONGEST, MOST, RequestCache
from meshwright_service.common.tenant import Tenant
from tests.service.conftest import Serve, until
from tests.service.keyed import key_of, state_of
from tests.service.samples import REQUEST, request

WAIT = {"Prefer": "wait=60"}


def test_the_same_bytes_have_the_same_answer_until_somebody_wants_more(serve: Serve) -> None:
    http = serve("tiny")
    first = http.post("/v1/plan", json=REQUEST, headers=WAIT)
    again = http.post("/v1/plan", json=REQUEST)
    assert (again.status_code, again.json()) == (200, first.json())
    assert again.headers["content-location"] == first.headers["content-location"]
    fresh = http.post("/v1/plan?fresh=true", json=REQUEST)
    assert fresh.status_code == 202
    assert len(http.get("/v1/jobs").json()["jobs"]) == 2
    until(lambda: http.get(fresh.headers["location"]).json()["state"] == "succeeded")
    body = request(verify=True)
    for _ in range(2):
        assert "link" in http.post("/v1/plan", json=body, headers=WAIT).headers
    assert len(http.get("/v1/jobs").json()["jobs"]) == 3


def test_bytes_known_of_one_tenant_say_nothing_to_another(serve: Serve) -> None:
    http = serve("tiny")
    one, other = key_of(http, tenant="one"), key_of(http, tenant="other")
    graph = http.post("/v1/graphs", json=REQUEST["graph"], headers=one).json()["id"]
    asked = request(graph=graph)
    assert http.post("/v1/plan", json=asked, headers={**one, **WAIT}).status_code == 200
    assert http.post("/v1/plan", json=asked, headers=one).status_code == 200
    assert http.post("/v1/plan", json=asked, headers=other).status_code == 404
    jobs = state_of(http).jobs
    with state_of(http).database.reading() as connection:
        (job,) = http.get("/v1/jobs", headers=one).json()["jobs"]
        assert jobs.find(connection, Tenant("one"), job["request"]) is not None
        assert jobs.find(connection, Tenant("other"), job["request"]) is None


def test_a_body_is_known_by_its_encoding_too() -> None:
    known = RequestCache()
    known.keep("gzip", b"a", asked(1))
    assert known.order("gzip", b"a") == asked(1)
    assert known.order("", b"a") is None
    assert known.order("gzi", b"pa") is None


def test_what_was_asked_longest_ago_is_forgotten() -> None:
    known = RequestCache()
    for number in range(MOST + 1):
        known.keep("", str(number).encode(), asked(number))
        assert known.order("", b"0") == asked(0)
    assert known.order("", b"1") is None
    assert known.order("", b"2") == asked(2)


def test_what_is_long_is_read_again() -> None:
    known = RequestCache()
    known.keep("", b"a", PlanOrder("request_1", {"module": "m" * LONGEST}, ()))
    assert known.order("", b"a") is None


def asked(number: int) -> PlanOrder:
    return PlanOrder(f"request_{number}", {"graph": f"graph_{number}"}, ())
