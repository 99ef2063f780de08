"""API keys: made once, asked for, revoked, expired; and written down nowhere."""

from __future__ import annotations

import hashlib
import logging

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from meshwright.schema import NotFound, Unauthorized
from meshwright_service.auth.api_keys import Keys
from meshwright_service.auth.authentication import KEPT_S, Authentication
from meshwright_service.auth.principals import ANYBODY, SCOPES, Principal
from meshwright_service.auth.schemes import Credential
from meshwright_service.auth.schemes.bearer import BearerKeys
from meshwright_service.common.tenant import Tenant
from meshwright_service.store.pagination import PageRequest
from meshwright_service.store.tables import KeyRow
from tests.service.conftest import Serve
from tests.service.job_table import Table
from tests.service.keyed import bearing, key_of, secret_of, state_of
from tests.service.samples import GRAPH

ONE, OTHER = Tenant("one"), Tenant("other")


def test_the_store_has_no_secret(table: Table) -> None:
    keys = Keys(table.database)
    made, secret = keys.create(ONE, name="a", scopes=["read"])
    _, another = keys.create(ONE, name="a", scopes=["read"])
    assert secret != another
    assert len(secret) == 3 + 43  # 32 bytes in base64
    with table.database.reading() as connection:
        row = connection.execute(select(KeyRow.__table__).where(KeyRow.id == made.id)).one()
    assert row.digest == hashlib.sha256(secret.encode()).hexdigest()
    assert row.prefix == secret[:11]
    assert secret not in str(row)
    assert secret not in repr(made)


def test_a_key_works_until_it_is_over(table: Table) -> None:
    keys = Keys(table.database)
    made, secret = keys.create(ONE, name="a", scopes=["read", "plan"], expires_s=50)
    assert keys.principal(secret) == Principal(ONE, made.id, frozenset(("read", "plan")))
    for wrong in (secret[:-1] + ("a" if secret[-1] != "a" else "b"), secret[:11], "mw_", ""):
        with pytest.raises(Unauthorized, match="the service has no such key"):
            keys.principal(wrong)
    table.turn_clock(50)
    with pytest.raises(Unauthorized, match="has expired"):
        keys.principal(secret)


def test_a_revoked_key_stays_revoked_and_listed(table: Table) -> None:
    keys = Keys(table.database)
    made, secret = keys.create(ONE, name="a", scopes=["read"])
    with pytest.raises(NotFound):
        keys.revoke(OTHER, made.id)
    keys.principal(secret)
    first = keys.revoke(ONE, made.id)
    table.turn_clock(5)
    assert keys.revoke(ONE, made.id) == first
    with pytest.raises(Unauthorized, match="was revoked"):
        keys.principal(secret)
    assert keys.list(ONE, PageRequest(10)).items == (first,)
    assert keys.list(OTHER, PageRequest(10)).items == ()
    assert keys.any()


def test_the_last_use_is_noted_about_once_a_minute(table: Table) -> None:
    keys = Keys(table.database)
    _, secret = keys.create(ONE, name="a", scopes=["read"])

    def used() -> float | None:
        keys.principal(secret)
        return keys.every()[0].used

    assert used() == 1000
    table.turn_clock(59)
    assert used() == 1000
    table.turn_clock(2)
    assert used() == 1061


def test_what_is_remembered_is_soon_asked_again(table: Table) -> None:
    now = [100.0]
    keys = Keys(table.database)
    asked = Authentication(keys, clock=lambda: now[0])
    assert asked.remembered(None) is None
    assert asked.find(None) is ANYBODY
    made, secret = keys.create(ONE, name="a", scopes=["read"])
    credential = Credential(BearerKeys(), secret)
    assert asked.remembered(None) is ANYBODY  # made elsewhere: not yet known here
    now[0] += KEPT_S
    assert asked.remembered(None) is None
    with pytest.raises(Unauthorized, match="asks for a key"):
        asked.find(None)
    assert asked.find(credential).tenant == ONE
    keys.revoke(ONE, made.id)
    now[0] += KEPT_S * 0.99
    assert asked.remembered(credential) is not None
    now[0] += KEPT_S * 0.02
    assert asked.remembered(credential) is None
    with pytest.raises(Unauthorized, match="was revoked"):
        asked.find(credential)
    assert asked.remembered(credential) is None


def test_without_keys_only_this_machine_is_served(serve: Serve) -> None:
    http = serve(workers=0)
    assert http.get("/v1/plans").status_code == 200
    for peer, status in (("::1", 200), ("::ffff:127.0.0.1", 200), ("192.0.2.1", 401)):
        from_there = TestClient(http.app, "http://127.0.0.1", client=(peer, 50000))
        assert from_there.get("/v1/plans").status_code == status, peer
        assert from_there.get("/healthz").status_code == 200


def test_the_first_key_closes_the_service_at_once(serve: Serve) -> None:
    http = serve(workers=0)
    http.post("/v1/graphs", json=GRAPH)
    wish = {"name": "the first", "scopes": ["admin"]}
    made = http.post("/v1/keys", json=wish)
    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    assert http.get("/v1/graphs").status_code == 401
    headers = bearing(made.json()["key"])
    assert len(http.get("/v1/graphs", headers=headers).json()["graphs"]) == 1
    (entry,) = http.get("/v1/keys", headers=headers).json()["keys"]
    assert "key" not in entry
    assert entry["scopes"] == ["admin"]
    assert http.delete(f"/v1/keys/{entry['id']}", headers=headers).json()["revoked_at"]
    assert http.get("/v1/graphs", headers=headers).status_code == 401
    assert http.get("/v1/graphs").status_code == 401  # closed for good


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "mw_0"},
        {"Authorization": "Basic bXdfOm13Xw=="},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer mw_" + "a" * 43},
        {"Authorization": "Bearer mw_" + "a" * 400},
        {"Authorization": b"Bearer mw_\xff"},
    ],
)
def test_what_is_no_key_is_refused(serve: Serve, headers: dict[str, str]) -> None:
    http = serve(workers=0)
    key_of(http)
    answer = http.get("/v1/plans", headers=headers)
    assert answer.status_code == 401
    assert answer.json()["type"].endswith(":unauthorized")


def test_two_headers_and_keys_in_the_url_are_refused(serve: Serve) -> None:
    http = serve(workers=0)
    secret = secret_of(http)
    twice = [("Authorization", f"Bearer {secret}")] * 2
    assert http.get("/v1/plans", headers=twice).status_code == 401
    assert http.get(f"/v1/plans?key={secret}").status_code == 401


def test_nothing_of_a_request_is_read_before_its_key(serve: Serve) -> None:
    http = serve(workers=0, max_body_bytes=10)
    key_of(http)
    answer = http.post("/v1/graphs", content=b"x" * 1000)
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"name": "", "scopes": ["read"]}, "/name"),
        ({"name": "a", "scopes": []}, "/scopes"),
        ({"name": "a", "scopes": ["root"]}, "/scopes/0"),
        ({"name": "a", "scopes": ["read"], "expires_s": 0}, "/expires_s"),
        ({"name": "a", "scopes": ["read"], "tenant": "other"}, "/tenant"),
    ],
)
def test_a_wish_for_a_key_that_is_wrong_is_pointed_at(
    serve: Serve, body: dict[str, object], pointer: str
) -> None:
    answer = serve(workers=0).post("/v1/keys", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_a_secret_stands_in_no_log_and_no_answer(
    serve: Serve, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    http = serve(workers=0)
    secret = secret_of(http, "admin")
    monkeypatch.setattr("meshwright_service.store.plan_index.list_plans", lambda *_, **__: 1 / 0)
    said = [
        http.get(path, headers=bearing(secret))
        for path in ("/v1/plans", "/v1/nowhere", "/v1/plans/plan_0", "/v1/keys")
    ]
    assert [answer.status_code for answer in said] == [500, 404, 404, 200]
    state_of(http).keys.revoke(Tenant("default"), state_of(http).keys.every()[0].id)
    state_of(http).authentication.forget()
    said.append(http.get("/v1/plans", headers=bearing(secret)))
    assert said[-1].status_code == 401
    assert "ZeroDivisionError" in caplog.text
    for text in (caplog.text, *(answer.text for answer in said)):
        assert secret[11:] not in text


def test_a_caller_is_told_what_it_may_do(serve: Serve) -> None:
    http = serve(workers=0)
    assert http.get("/v1/caller").json() == {"scopes": list(SCOPES)}
    admin, reader = key_of(http, "admin"), key_of(http, "read")
    found = http.get("/v1/caller", headers=admin).json()
    assert found["scopes"] == ["read", "plan", "agent", "admin"]
    assert found["key"] in {own["id"] for own in http.get("/v1/keys", headers=admin).json()["keys"]}
    assert http.get("/v1/caller", headers=reader).json()["scopes"] == ["read"]
