"""Authentication schemes: a second one is one object beside the first."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.datastructures import Headers
from starlette.testclient import TestClient

from meshwright_service.api.app import create_app
from meshwright_service.auth.api_keys import Keys
from meshwright_service.auth.principals import Principal
from meshwright_service.auth.schemes import SCHEMES
from meshwright_service.common.settings import Settings
from tests.service.conftest import local
from tests.service.keyed import bearing, secret_of


class BasicKeys:
    """HTTP Basic (RFC 7617) with an API key as the password, for tools that know nothing else."""

    name = "basic"
    challenge = 'Basic realm="meshwright"'
    example = "Authorization: Basic with a key as the password"
    security = {"type": "http", "scheme": "basic"}  # noqa: RUF012  read only

    def secret(self, headers: Headers) -> str | None:
        scheme, _, encoded = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        return base64.b64decode(encoded).decode().partition(":")[2]

    def principal(self, keys: Keys, secret: str) -> Principal:
        return keys.principal(secret)


@pytest.fixture
def http(store: str, tmp_path: Path) -> Iterator[TestClient]:
    settings = Settings(data_dir=tmp_path, database_url=store, workers=0)
    with local(create_app(settings, schemes=(*SCHEMES, BasicKeys()))) as client:
        yield client


def test_a_second_scheme_gives_the_same_principal(http: TestClient) -> None:
    secret = secret_of(http, "read")
    by_bearer = http.get("/v1/caller", headers=bearing(secret))
    by_basic = http.get("/v1/caller", auth=("anybody", secret))
    assert by_basic.status_code == by_bearer.status_code == 200
    assert by_basic.json() == by_bearer.json()
    wrong = http.get("/v1/caller", auth=("anybody", "mw_unknown"))
    assert wrong.status_code == 401


def test_a_request_without_credentials_is_challenged_by_both(http: TestClient) -> None:
    secret_of(http, "read")
    for headers in ({}, {"Authorization": "Digest a"}):
        answer = http.get("/v1/caller", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == (
            'Bearer realm="meshwright", Basic realm="meshwright"'
        )
        assert "Bearer mw_… or Authorization: Basic" in answer.json()["detail"]


def test_both_schemes_are_in_the_openapi_document(http: TestClient) -> None:
    document = http.get("/openapi.json", headers=bearing(secret_of(http, "read"))).json()
    assert document["components"]["securitySchemes"]["basic"] == BasicKeys.security
    assert document["paths"]["/v1/plans"]["get"]["security"] == [{"key": []}, {"basic": []}]
