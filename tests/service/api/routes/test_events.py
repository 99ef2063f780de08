"""Progress as server-sent events."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.service.conftest import Serve, until
from tests.service.samples import REQUEST


@dataclass(frozen=True)
class Event:
    """One event as a browser reads it."""

    kind: str
    id: str | None
    data: Any


def read(text: str) -> list[Event]:
    """The events of a stream, comments left out."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":")
        )
        if fields:
            found.append(Event(fields["event"], fields.get("id"), json.loads(fields["data"])))
    return found


def follow(http: TestClient, job: str, after: str | None = None) -> list[Event]:
    headers = {} if after is None else {"Last-Event-ID": after}
    answer = http.get(f"/v1/jobs/{job}/events", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    return read(answer.text)


def test_a_job_is_followed_to_its_end(serve: Serve) -> None:
    http = serve("tiny")
    job = http.post("/v1/plan", json=REQUEST).json()["id"]
    *events, last = follow(http, job)
    assert [own.id for own in events] == [str(number + 1) for number in range(len(events))]
    states = [own.data["state"] for own in events if own.kind == "state"]
    assert states == ["queued", "running", "succeeded"]
    (progress,) = [own.data["progress"] for own in events if own.kind == "progress"]
    assert progress["phase"] == "counting"
    assert (last.kind, last.id) == ("job", None)
    assert last.data == http.get(f"/v1/jobs/{job}").json()


def test_who_comes_back_gets_what_it_has_not_seen(serve: Serve) -> None:
    http = serve("tiny")
    job = http.post("/v1/plan", json=REQUEST).json()["id"]
    events = follow(http, job)
    assert follow(http, job, after="2") == events[2:]
    assert follow(http, job, after="999999999") == events[-1:]


def test_progress_comes_while_the_search_runs_and_a_cancel_ends_it(serve: Serve) -> None:
    http = serve("improving", cancel_grace_s=20)
    job = http.post("/v1/plan", json=REQUEST).json()["id"]
    with ThreadPoolExecutor() as pool:
        following = pool.submit(follow, http, job)
        until(
            lambda: (http.get(f"/v1/jobs/{job}").json().get("progress") or {}).get("incumbent_ns")
        )
        http.post(f"/v1/jobs/{job}/cancel")
        events = following.result(timeout=120)
    costs = [own.data["progress"].get("incumbent_ns") for own in events if own.kind == "progress"]
    found = [cost for cost in costs if cost]
    assert found == sorted(found, reverse=True)
    assert [own.kind for own in events][-2:] == ["plan", "job"]
    assert events[-1].data["state"] == "cancelled"
    assert events[-1].data["plan"] == events[-2].data["plan"]


def test_an_unknown_job_is_a_problem_and_no_stream(serve: Serve) -> None:
    answer = serve(workers=0).get("/v1/jobs/job_0/events")
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:meshwright:problem:not-found")


@pytest.mark.parametrize("id_", ["x", "-1", "1" * 20, "1.5"])
def test_what_is_no_id_of_an_event_is_refused(serve: Serve, id_: str) -> None:
    http = serve(workers=0)
    job = http.post("/v1/plan", json=REQUEST).json()["id"]
    answer = http.get(f"/v1/jobs/{job}/events", headers={"Last-Event-ID": id_})
    assert (answer.status_code, answer.json()["type"]) == (
        422,
        "urn:meshwright:problem:invalid-parameter",
    )
