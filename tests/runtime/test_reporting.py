"""Step times: medians after a warm-up; what cannot be sent is logged once, and stops nothing."""

from __future__ import annotations

import logging

import httpx
import pytest

from meshwright.client import Client
from meshwright.runtime.reporting import FIRST_STEPS, NEXT_STEPS, WARM_UP_STEPS, Reports, StepClock
from meshwright.schema.observation import Observation

SEEN = Observation(plan="plan_x", step_ns=2e6, steps=10)


def test_the_median_passes_over_the_warm_up_and_over_pauses() -> None:
    # a step takes 2 s, of the warm-up 9 s, and every fourth is followed by a pause of 30 s
    now, found = 0.0, []
    clock = StepClock(now=lambda: now)
    for step in range(WARM_UP_STEPS + FIRST_STEPS + NEXT_STEPS + 1):
        said = clock.begin()
        if said is not None:
            found.append((step, *said))
        now += 9.0 if step < WARM_UP_STEPS else 32.0 if step % 4 == 0 else 2.0
    first = WARM_UP_STEPS + FIRST_STEPS
    assert found == [(first, 2e9, FIRST_STEPS), (first + NEXT_STEPS, 2e9, NEXT_STEPS)]


def test_what_is_sent_arrives_before_the_end() -> None:
    asked: list[tuple[str, bytes]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.url.path, request.read()))
        return httpx.Response(201, json={"id": "observation_x"})

    transport = httpx.MockTransport(answer)
    reports = Reports("http://service", lambda url: Client(url, transport=transport))
    reports.send(SEEN)
    reports.close()
    ((path, body),) = asked
    assert path == "/v1/plans/plan_x/observations"
    assert Observation.from_json(body) == SEEN


def test_a_service_that_is_down_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    def connect(url: str) -> Client:
        return Client(url, transport=httpx.MockTransport(answer), sleep=lambda _: None)

    reports = Reports("http://service", connect)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            reports.send(SEEN)
            reports.close()
    (said,) = caplog.messages
    assert said.startswith("step times are not reported to http://service: no answer from")
