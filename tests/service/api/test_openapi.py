"""The OpenAPI document speaks of our problems, not of FastAPI's errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from meshwright_service.api.app import create_app
from meshwright_service.api.request_body import read_body, receive_body, receive_cost_graph
from meshwright_service.common.settings import Settings
from tests.service.conftest import Serve, local
from tests.service.keyed import key_of

READERS = (read_body, receive_body, receive_cost_graph)


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One for all tests of this file: it takes a second of a core."""
    app = create_app(Settings(data_dir=tmp_path_factory.mktemp("store"), workers=0))
    with local(app) as http:
        made: dict[str, Any] = http.get("/openapi.json").json()
    return made


def test_every_error_is_a_problem(document: dict[str, Any]) -> None:
    for path, methods in document["paths"].items():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    assert list(response["content"]) == ["application/problem+json"], path
    assert "HTTPValidationError" not in json.dumps(document)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                found.append(value["$ref"])
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(document)
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert found
    assert set(found) <= known


def test_every_endpoint_says_what_it_is_for(document: dict[str, Any]) -> None:
    for methods in document["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            assert operation["description"]


def test_uploads_say_what_they_take(document: dict[str, Any]) -> None:
    body = document["paths"]["/v1/graphs"]["post"]["requestBody"]
    assert body["content"]["application/json"]["schema"]["$ref"].endswith("/Graph")


def test_every_body_that_is_read_is_described(serve: Serve, document: dict[str, Any]) -> None:
    app = serve(workers=0).app
    assert isinstance(app, FastAPI)
    readers = {
        (route.path, method.lower())
        for route in iter_route_contexts(app.routes)
        if isinstance(route.original_route, APIRoute)
        for method in route.methods or ()
        if any(part.call in READERS for part in route.dependant.dependencies)
    } - {("/plan", "post")}
    described = {
        (path, method)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if "requestBody" in operation
    }
    assert readers == described


def test_every_example_is_accepted(serve: Serve, document: dict[str, Any]) -> None:
    http = serve(workers=0)
    for path, methods in document["paths"].items():
        body = methods.get("post", {}).get("requestBody")
        if body is None or "{" in path:
            continue
        example = body["content"]["application/json"]["example"]
        answer = http.post(path, json=example)
        # no agent waits here
        assert answer.status_code in ((409,) if path.endswith(":measure") else (200, 201, 202)), (
            path
        )
        if path == "/v1/keys":
            http.headers.update(key_of(http))


def test_every_answer_says_its_headers(document: dict[str, Any]) -> None:
    for path, methods in document["paths"].items():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                assert "X-Request-ID" in response["headers"], path
                assert ("Retry-After" in response["headers"]) == (status == "429")
            if "304" in operation["responses"]:
                assert "ETag" in operation["responses"]["200"]["headers"], path
