"""No answer sends a caller elsewhere: what a proxy in front is called, the service cannot know."""

from __future__ import annotations

import re

import pytest
from fastapi import FastAPI

from meshwright_service.api import static_files
from tests.service.conftest import Serve

pytestmark = pytest.mark.parametrize("store", ["sqlite"], indirect=True)


def test_a_path_with_a_slash_too_many_is_a_problem_that_names_the_endpoint(serve: Serve) -> None:
    http = serve(workers=0)
    for path in ("/v1/plans/", "/v1/plans//", "/v1/jobs/job_0/", "/plans/plan_0/graph/"):
        answer = http.get(path, follow_redirects=False)
        assert answer.status_code == 404, path
        problem = answer.json()
        assert problem["type"] == "urn:meshwright:problem:no-such-endpoint"
        assert f"use {path.rstrip('/')}, without the slash" in problem["detail"]
    assert http.get("/nowhere/").json()["detail"] == "there is no endpoint /nowhere/"


def test_no_endpoint_redirects(serve: Serve) -> None:
    http = serve(workers=0)
    app = http.app
    assert isinstance(app, FastAPI)
    asked = [
        (method.upper(), re.sub(r"\{\w+\}", "x", path))
        for path, methods in app.openapi()["paths"].items()
        for method in methods
    ]
    asked += [("GET", re.sub(r"\{\w+\}", "x", path)) for path in static_files.PAGES]
    asked += [("GET", "/dashboard/main.js"), ("GET", "//elsewhere.example/v1/plans")]
    assert len(asked) > 60
    for method, path in asked:
        for one in (path, path + "/", path + "//", "/" + path):
            answer = http.request(method, f"http://127.0.0.1{one}", follow_redirects=False, json={})
            assert not 300 <= answer.status_code < 400, (method, one)
            assert answer.status_code < 500, (method, one, answer.text)
