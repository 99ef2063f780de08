"""Host and Origin: pages of others get nothing, whatever name they give this machine."""

from __future__ import annotations

import pytest

from tests.service.conftest import Serve
from tests.service.samples import GRAPH

ELSEWHERE = "0.0.0.0"


@pytest.mark.parametrize(
    ("listens", "more", "host", "status"),
    [
        ("127.0.0.1", "", "127.0.0.1:8780", 200),
        ("127.0.0.1", "", "LOCALHOST:8780", 200),
        ("127.0.0.1", "", "[::1]:8780", 200),
        ("127.0.0.1", "", "evil.example", 421),
        ("127.0.0.1", "", "192.0.2.1", 421),
        ("127.0.0.1", "", "127.0.0.1.evil.example", 421),
        ("127.0.0.1", "", "localhost@evil.example", 421),
        ("127.0.0.1", "", "localhost:port", 421),
        ("127.0.0.1", "", "[::1", 421),
        ("127.0.0.1", "", "", 421),
        ("192.0.2.1", "", "192.0.2.1:80", 200),
        (ELSEWHERE, "", "192.0.2.1:80", 200),
        (ELSEWHERE, "", "[2001:db8::1]", 200),
        (ELSEWHERE, "", "evil.example", 421),
        ("127.0.0.1", "Plans.Example, *.inner.example", "plans.example", 200),
        ("127.0.0.1", "Plans.Example, *.inner.example", "a.inner.example:80", 200),
        ("127.0.0.1", "Plans.Example, *.inner.example", "xinner.example", 421),
        ("127.0.0.1", "*", "evil.example", 421),
    ],
)
@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_service_answers_to_its_names(
    serve: Serve, listens: str, more: str, host: str, status: int
) -> None:
    http = serve(workers=0, host=listens, allowed_hosts=more)
    for path in ("/healthz", "/v1/plans", "/"):
        answer = http.get(path, headers={"Host": host})
        assert answer.status_code == status, path
    if status == 421:
        assert answer.json()["type"] == "urn:meshwright:problem:wrong-host"
        assert "MESHWRIGHT_ALLOWED_HOSTS" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 201),
        ("http://plans.example", 201),
        ("https://plans.example", 201),
        ("http://plans.example:80", 201),
        ("https://pages.example:444", 201),
        ("http://plans.example:81", 403),
        ("http://evil.example", 403),
        ("http://plans.example.evil.example", 403),
        ("http://evil.example/http://plans.example", 403),
        ("chrome-extension://plans.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_page_of_another_host_writes_nothing(
    serve: Serve, origin: str | None, status: int
) -> None:
    http = serve(workers=0, host="plans.example", allowed_hosts="pages.example")
    headers = {"Host": "plans.example", **({} if origin is None else {"Origin": origin})}
    answer = http.post("/v1/graphs", json=GRAPH, headers=headers)
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["type"] == "urn:meshwright:problem:wrong-origin"
        assert http.get("/v1/graphs", headers=headers).json()["graphs"] == []


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_headers_that_come_twice_are_refused(serve: Serve) -> None:
    http = serve(workers=0)
    for name, value, status in (
        ("Host", "127.0.0.1", 421),
        ("Origin", "http://127.0.0.1", 403),
    ):
        twice = [("Host", "127.0.0.1"), (name, value), (name, value)]
        assert http.post("/v1/graphs", json=GRAPH, headers=twice).status_code == status
