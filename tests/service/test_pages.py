"""The two pages: readable, escaped, loading nothing from elsewhere."""

from __future__ import annotations

from tests.service.conftest import Serve
from tests.service.samples import graph, request

WAIT = {"Prefer": "wait=20"}
EVIL = "<script>alert(1)</script>"


def test_the_first_page_says_how_to_begin(serve: Serve) -> None:
    answer = serve(workers=0).get("/")
    assert "POST /v1/plan" in answer.text
    assert answer.headers["content-type"].startswith("text/html")


def test_a_plan_is_listed_and_shown(serve: Serve) -> None:
    http = serve()
    http.post("/v1/plan", json=request(), headers=WAIT)
    id_ = http.get("/v1/plans").json()["plans"][0]["id"]
    assert f'href="/plans/{id_}"' in http.get("/").text
    page = http.get(f"/plans/{id_}")
    assert page.status_code == 200
    assert "layers.*.linear ×2" in page.text
    assert "two layers on two by four" in page.text
    assert http.get("/plans/plan_0").status_code == 404


def test_names_from_users_are_escaped(serve: Serve) -> None:
    http = serve()
    http.post("/v1/plan", json=request(graph=graph(name=EVIL)), headers=WAIT)
    id_ = http.get("/v1/plans").json()["plans"][0]["id"]
    for path in ("/", f"/plans/{id_}"):
        page = http.get(path)
        assert EVIL not in page.text
        assert "&lt;script&gt;" in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "http://" not in page.text
        assert "https://" not in page.text


def test_the_style_sheet_is_served(serve: Serve) -> None:
    assert serve(workers=0).get("/page.css").headers["content-type"].startswith("text/css")
