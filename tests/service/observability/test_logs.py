"""The log: what every line is about, in JSON or text, and never a secret."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import pytest
from sqlalchemy import make_url

from meshwright_service.api.middleware.request_log import HEADER
from meshwright_service.observability import logs
from tests.service.conftest import Serve
from tests.service.keyed import bearing, secret_of
from tests.service.samples import REQUEST
from tests.service.workers.test_workers import program


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """The log, in JSON; the logging of the tests comes back afterwards."""
    text = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    logs.configure("auto", text)
    yield text
    root.handlers[:] = handlers
    root.setLevel(level)


def said(text: io.StringIO, **about: Any) -> list[dict[str, Any]]:
    """The lines about this."""
    found = [json.loads(line) for line in text.getvalue().splitlines()]
    return [line for line in found if about.items() <= line.items()]


def test_a_request_and_its_job_can_be_followed(serve: Serve, lines: io.StringIO) -> None:
    http = serve()
    asked = http.post("/v1/plan", json=REQUEST, headers={HEADER: "run-7", "Prefer": "wait=60"})
    assert asked.headers[HEADER] == "run-7"
    (request,) = said(lines, logger="meshwright_service.api.middleware.request_log")
    assert (request["method"], request["path"], request["status"]) == ("POST", "/v1/plan", 200)
    assert (request["request_id"], request["tenant"]) == ("run-7", "default")
    assert 0 < request["seconds"] < 60
    queued, running, succeeded = said(
        lines, logger="meshwright_service.observability.logs", kind="plan"
    )
    assert [one["state"] for one in (queued, running, succeeded)] == [
        "queued", "running", "succeeded",
    ]  # fmt: skip
    assert (queued["request_id"], queued["attempt"]) == ("run-7", 0)
    assert (running["attempt"], succeeded["outcome"]) == (1, "optimal")
    assert running["worker"] == succeeded["worker"]
    assert "request_id" not in running
    assert queued["job"] == running["job"] == succeeded["job"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", request["at"])


def test_who_sends_no_plain_request_id_gets_one(serve: Serve, lines: io.StringIO) -> None:
    http = serve()
    given = ["", "two words", "x" * 129, "a\tb", "{}", "-n"]
    answers = [http.get("/v1/plans", headers={HEADER: own}) for own in given]
    answers.append(http.get("/v1/plans"))
    answers.append(http.get("/v1/plans", headers={"Host": "elsewhere.test"}))
    ids = [answer.headers[HEADER] for answer in answers]
    assert all(re.fullmatch("[0-9a-f]{32}", own) for own in ids)
    assert len(set(ids)) == len(answers)
    assert [
        line["request_id"]
        for line in said(lines, logger="meshwright_service.api.middleware.request_log")
    ] == ids


def test_what_machines_ask_all_the_time_leaves_no_line(serve: Serve, lines: io.StringIO) -> None:
    http = serve()
    for path in ("/healthz", "/readyz", "/metrics"):
        assert http.get(path).status_code == 200
    assert said(lines, logger="meshwright_service.api.middleware.request_log") == []


def test_a_fault_leaves_its_trace_in_one_line(
    serve: Serve, lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = serve()

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("with Bearer mw_0123456789abcdef")

    monkeypatch.setattr("meshwright_service.store.documents.list_documents", broken)
    assert http.get("/v1/graphs", headers={HEADER: "bad"}).status_code == 500
    (fault,) = said(lines, level="ERROR")
    assert "ZeroDivisionError: with Bearer mw_***" in fault["exc_info"]
    assert fault["request_id"] == "bad"
    (request,) = said(lines, logger="meshwright_service.api.middleware.request_log")
    assert request["status"] == 500


def test_no_key_is_logged_whatever_is_done_with_it(serve: Serve, lines: io.StringIO) -> None:
    http = serve()
    secret = secret_of(http, "admin")
    own = bearing(secret)
    made = http.post("/v1/keys", json={"name": "n", "scopes": ["read"]}, headers=own).json()
    keys = (secret, made["key"])
    for key in keys:
        http.get(f"/v1/plans/{key}", headers=bearing(key))
        http.get("/v1/plans", params={"graph": key}, headers=bearing(key + "x"))
        http.post("/v1/plan", json={"graph": key}, headers=own)
        http.get("/v1/plans", headers={**own, HEADER: key})
        http.request(key, "/v1/plans", headers=own)
    assert len(said(lines, logger="meshwright_service.api.middleware.request_log")) == 11
    text = lines.getvalue()
    for key in keys:
        assert key not in text
        assert key[5:] not in text
    assert "mw_***" in text


@pytest.mark.parametrize(
    "line",
    [
        "postgresql://user:hunter2@host/name",
        "connection to 'host=h password=hunter2 user=u' failed",
        'connect(password="hunter2")',
        "{'Authorization': 'Basic hunter2'}",
        "[(b'authorization', b'Bearer hunter2')]",
        "Authorization: Bearer hunter2",
        "the key mw_hunter2hunter2hunter2",
    ],
)
@pytest.mark.parametrize("kind", ["json", "text"])
def test_who_logs_a_secret_logs_asterisks(lines: io.StringIO, kind: logs.Format, line: str) -> None:
    logs.configure(kind, lines)
    log = logging.getLogger("anybody")
    log.error("it said %s", line, extra={"note": line})
    try:
        raise ValueError(line)
    except ValueError:
        log.exception("again")
    assert "it said" in lines.getvalue()
    assert "***" in lines.getvalue()
    assert "hunter2" not in lines.getvalue()


def test_a_terminal_gets_plain_text(lines: io.StringIO) -> None:
    del lines  # which puts the logging back
    text = Terminal()
    logs.configure("auto", text)
    logging.getLogger("somebody").info("hello")
    assert text.getvalue() == "INFO somebody: hello\n"


def test_a_server_logs_no_password_of_its_database(
    store: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    url = make_url(store)
    if url.get_backend_name() == "postgresql":
        url = url.set(password="hunter3")
    words = ("serve", "--port", "0", "--database", url.render_as_string(hide_password=False))
    with program(tmp_path, *words) as (line, _):
        found = re.search(r"http://\S+", line)
        assert found, (tmp_path / "errors of serve").read_text()
        assert httpx.get(f"{found[0]}/v1/plans").status_code == 200
    text = (tmp_path / "errors of serve").read_text()
    assert '"path": "/v1/plans"' in text
    assert "hunter" not in text + line
