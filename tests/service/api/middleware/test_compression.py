"""Answers in the encodings that a caller takes, and their ETags."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest
import zstandard

from meshwright_service.api.middleware.compression import accepted
from meshwright_service.common.tenant import DEFAULT_TENANT
from meshwright_service.store import documents
from tests.service.conftest import Serve
from tests.service.keyed import state_of
from tests.service.samples import REQUEST, graph

NAME = "long " * 100


@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        ("", None), ("identity", None), ("br", None), ("*;q=0", None), ("gzip;q=0", None),
        ("gzip", "gzip"), ("GZIP", "gzip"), ("gzip, deflate, br, zstd", "zstd"), ("*", "zstd"),
        ("zstd;q=0, gzip;q=0.5", "gzip"), ("zstd; q=0.000, *", "gzip"), ("zstd;q=1.0", "zstd"),
        ("gzip;q=", "gzip"), (";;,,=", None), ("zstd;q=0.001", "zstd"),
    ],
)  # fmt: skip
def test_the_best_encoding_that_is_allowed(header: str, encoding: str | None) -> None:
    assert accepted(header) == encoding


@pytest.mark.parametrize(
    ("encoding", "decode"),
    [("gzip", gzip.decompress), ("zstd", zstandard.ZstdDecompressor().decompress)],
)
def test_a_document_is_the_same_in_every_encoding(
    serve: Serve, encoding: str, decode: Callable[[bytes], bytes]
) -> None:
    http = serve(workers=0)
    notes = [f"{NAME[:400]} {number}" for number in range(9)]
    path = f"/v1/graphs/{http.post('/v1/graphs', json=graph(notes=notes)).json()['id']}"
    plain = http.get(path, headers={"Accept-Encoding": "identity"})
    with http.stream("GET", path, headers={"Accept-Encoding": encoding}) as answer:
        sent = b"".join(answer.iter_raw())
    assert "content-encoding" not in plain.headers
    assert answer.headers["content-encoding"] == encoding
    assert int(answer.headers["content-length"]) == len(sent) < len(plain.content)
    assert decode(sent) == plain.content
    for one in (plain, answer):
        assert {"Authorization", "Accept-Encoding"} <= set(one.headers["vary"].split(", "))
    strong = plain.headers["etag"]
    assert answer.headers["etag"] == f"W/{strong}"
    for tag in (strong, f"W/{strong}"):
        again = http.get(path, headers={"If-None-Match": tag, "Accept-Encoding": encoding})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", strong)


def test_who_takes_zstd_is_sent_what_is_stored(serve: Serve) -> None:
    http = serve(workers=0)
    made = http.post("/v1/graphs", json=graph()).json()["id"]
    with http.stream("GET", f"/v1/graphs/{made}", headers={"Accept-Encoding": "zstd"}) as answer:
        sent = b"".join(answer.iter_raw())
    with state_of(http).database.reading() as connection:
        assert sent == documents.read_packed(connection, DEFAULT_TENANT, "graph", made)


def test_who_asks_for_a_plan_that_is_stored_is_sent_it_as_it_is(serve: Serve) -> None:
    http = serve()
    assert http.post("/v1/plan", json=REQUEST, headers={"Prefer": "wait=60"}).status_code == 200
    takes = {"Accept-Encoding": "zstd"}
    with http.stream("POST", "/v1/plan", json=REQUEST, headers=takes) as answer:
        sent = b"".join(answer.iter_raw())
    plan = answer.headers["content-location"].rpartition("/")[2]
    assert answer.headers["location"].startswith("/v1/jobs/")
    assert answer.headers["content-encoding"] == "zstd"
    with state_of(http).database.reading() as connection:
        assert sent == documents.read_packed(connection, DEFAULT_TENANT, "plan", plan)


def test_what_is_small_goes_as_it_is(serve: Serve) -> None:
    answer = serve(workers=0).get("/healthz", headers={"Accept-Encoding": "zstd, gzip"})
    assert "content-encoding" not in answer.headers
    assert "Accept-Encoding" in answer.headers["vary"]


def test_every_answer_is_what_it_says(serve: Serve) -> None:
    http = serve(workers=0)
    for path in ("/healthz", "/v1/plans", "/v1/plans/plan_0", "/", "/nothing"):
        headers = http.get(path).headers
        assert headers["x-content-type-options"] == "nosniff", path
        assert headers["referrer-policy"] == "no-referrer", path
