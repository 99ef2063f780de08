"""Documents that a caller has already: 304 without asking the database, for whom it is theirs."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from meshwright_service.api.middleware import not_modified
from meshwright_service.store import documents
from tests.service.conftest import Serve
from tests.service.keyed import key_of
from tests.service.samples import TOPOLOGY


@pytest.fixture
def http(serve: Serve) -> TestClient:
    return serve()


def stored(http: TestClient, key: dict[str, str] | None = None) -> str:
    """The path of a document that was asked for with its ETag, and is remembered."""
    path = f"/v1/topologies/{http.post('/v1/topologies', json=TOPOLOGY, headers=key).json()['id']}"
    answer = http.get(path, headers=having(path, key))
    assert (answer.status_code, answer.content) == (304, b"")
    return path


def having(path: str, key: dict[str, str] | None = None) -> dict[str, str]:
    return {"If-None-Match": f'"{path.rpartition("/")[2]}"', **(key or {})}


def test_the_next_answer_is_the_same_and_the_database_is_not_asked(
    http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored(http)
    first = http.get(path, headers=having(path)).headers
    with monkeypatch.context() as patch:
        patch.setattr(documents, "exists", lambda *_: 1 / 0)
        second = http.get(path, headers=having(path))
    assert second.status_code == 304
    told = {name: value for name, value in second.headers.items() if name != "x-request-id"}
    assert told == {name: value for name, value in first.items() if name != "x-request-id"}
    assert told["vary"] == "Authorization, Accept-Encoding"
    numbers = http.get("/metrics").text
    route = 'method="GET",route="/v1/topologies/{topology}",status="304"'
    assert f"meshwright_http_requests_total{{{route}}} 3.0" in numbers


def test_what_is_remembered_is_asked_again_after_a_while(
    http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(not_modified, "KEPT_S", 0.0)
    path = stored(http)
    asked = []
    monkeypatch.setattr(documents, "exists", lambda *given: asked.append(given) or True)
    assert http.get(path, headers=having(path)).status_code == 304
    assert len(asked) == 1


def test_what_was_deleted_is_not_there(http: TestClient) -> None:
    path = stored(http)
    assert http.delete(path).status_code == 204
    assert http.get(path, headers=having(path)).status_code == 404


def test_another_etag_another_method_and_a_query_go_the_whole_way(http: TestClient) -> None:
    path = stored(http)
    assert http.get(path).json()["name"] == TOPOLOGY["name"]
    assert http.get(path, headers={"If-None-Match": '"topo_0"'}).status_code == 200
    assert http.get(f"{path}?a=b", headers=having(path)).status_code == 422
    assert http.post(path, headers=having(path)).status_code == 405


def test_it_is_nothing_to_another_tenant_nor_to_a_key_that_may_not_read(http: TestClient) -> None:
    mine, agent = key_of(http), key_of(http, "agent")
    path = stored(http, mine)
    assert http.get(path, headers=having(path, mine)).status_code == 304
    assert http.get(path, headers=having(path, agent)).status_code == 403
    theirs = key_of(http, tenant="other")
    assert http.get(path, headers=having(path, theirs)).status_code == 404
    assert http.get(path, headers=having(path)).status_code == 401
