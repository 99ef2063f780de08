"""Jobs followed by their events: gone on with after a break, polled where no events come."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from meshwright.client.events import EventReader, JobEvent
from meshwright.schema import Progress
from tests.clients.client.speaking import Speaking, events, problem, progress

AWAITS = pytest.mark.parametrize("awaits", [False, True], ids=["blocking", "awaiting"])
JOB: dict[str, Any] = {"id": "job_1", "state": "running"}
DONE = {**JOB, "state": "succeeded"}
STREAM = "/v1/jobs/job_1/events"


def answer(job: dict[str, Any]) -> httpx.Response:
    return httpx.Response(200, json=job)


def followed(*answers: httpx.Response | Exception, awaits: bool) -> tuple[list[str], Speaking]:
    """The phases that were told, in order."""
    seen: list[str] = []

    def told(own: Progress) -> None:
        seen.append(own.phase)

    speaking = Speaking(*answers, awaits=awaits)
    assert speaking("follow", "job_1", on_progress=told) == DONE
    return seen, speaking


@AWAITS
def test_every_step_is_told_as_it_comes(awaits: bool) -> None:
    seen, speaking = followed(
        answer(JOB),
        events(": ping", progress(1, "a"), progress(2, "b"), "event: job\ndata: {}"),
        answer(DONE),
        awaits=awaits,
    )
    assert seen == ["a", "b"]
    first = speaking.asked[1]
    assert (first.url.path, first.headers["accept"]) == (STREAM, "text/event-stream")
    assert "last-event-id" not in first.headers


@AWAITS
def test_a_stream_that_breaks_goes_on_behind_the_last_event(awaits: bool) -> None:
    seen, speaking = followed(
        answer(JOB),
        events(progress(1, "a"), progress(2, "b"), broken=True),
        httpx.ConnectError("restarting"),
        answer(JOB),
        events(progress(3, "c"), "event: job\ndata: {}"),
        answer(DONE),
        awaits=awaits,
    )
    assert seen == ["a", "b", "c"]
    again = [own for own in speaking.asked if own.url.path == STREAM][1]
    assert again.headers["last-event-id"] == "2"


@AWAITS
@pytest.mark.parametrize(
    "stream",
    [
        [httpx.Response(200, text="<html>")],
        [problem("no-such-endpoint", 404)],
        [httpx.ReadTimeout("held back")] * 2,
    ],
    ids=["a page", "an older service", "a proxy that holds back"],
)
def test_where_no_events_come_the_job_is_polled(
    stream: list[httpx.Response | Exception], awaits: bool
) -> None:
    running = {**JOB, "progress": {"phase": "polled", "done": 1, "total": 2}}
    between: list[httpx.Response | Exception] = []
    for own in stream:
        between += [own, answer(JOB)]
    seen, speaking = followed(
        answer(JOB), *between, answer(running), answer(running), answer(DONE), awaits=awaits
    )
    assert seen == ["polled"] * 2
    waits = [own.url.params.get("wait") for own in speaking.asked if own.url.path != STREAM]
    assert waits[-3:] == ["0.5"] * 3


@AWAITS
def test_who_does_not_watch_asks_in_long_polls(awaits: bool) -> None:
    speaking = Speaking(answer(JOB), answer(JOB), answer(DONE), awaits=awaits)
    assert speaking("follow", "job_1") == DONE
    assert [own.url.params.get("wait") for own in speaking.asked] == [None, "20.0", "20.0"]


def test_lines_are_put_together_to_events() -> None:
    heard: list[JobEvent] = []
    reader = EventReader(lambda event: heard.append(event) or False)  # type: ignore[func-returns-value]
    text = (
        ": ping\n\nid: 7\nevent: state\ndata: {\"a\":\ndata: 1}\n\n"
        "data:{}\n\nevent: state\n\ndata: no JSON\n\ndata: [1]\n\nid: 9\nevent: half\ndata: {}"
    )  # fmt: skip
    for line in text.split("\n"):
        assert not reader.hear(line)
    assert heard == [JobEvent("state", {"a": 1}), JobEvent("message", {})]
    assert reader.headers() == {"Last-Event-ID": "7"}
    reader.begin()  # what was half there is sent again
    assert not reader.hear("")
    assert len(heard) == 2
