"""A service that did what was asked and whose answer was lost: asking again comes to the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import httpx
import pytest

from meshwright.client import AsyncClient, Client, SearchCancelled
from meshwright.schema import Answer, Graph, Setup, Topology
from meshwright.schema.agent import Measure
from tests.service.conftest import server, until
from tests.service.cutting import Cutting, cutting
from tests.service.samples import GRAPH, TOPOLOGY

ASKED = Graph.from_dict(GRAPH), Topology.from_dict(TOPOLOGY)
AGENT = {"name": "a", "backend": "gloo", "hosts": ["a"], "device": "cpu", "devices": 2}
CASES: list[
    tuple[Literal["cached", "fresh"], float]
] = [  # of a search: how it is asked for, and how much of each answer comes
    ("fresh", 0.0),
    ("fresh", 0.7),
    ("cached", 0.0),
    ("cached", 0.7),
]
Search = Literal["cached", "fresh"]


def blocking(url: str, search: Search, setup: Setup) -> Answer:
    with Client(url) as client:
        return client.plan(*ASKED, setup=setup, search=search)


def awaiting(url: str, search: Search, setup: Setup) -> Answer:
    async def asked() -> Answer:
        async with AsyncClient(url) as client:
            return await client.plan(*ASKED, setup=setup, search=search)

    return asyncio.run(asked())


@pytest.fixture
def service(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("MESHWRIGHT_DATABASE_URL", store)
    with server(tmp_path) as (url, _):
        yield url


@pytest.mark.parametrize("ask", [blocking, awaiting])
def test_a_plan_whose_answers_were_lost_is_searched_once(
    service: str, ask: Callable[[str, Search, Setup], Answer]
) -> None:
    for number, (search, passed) in enumerate(CASES):
        with cutting(service, cuts=2, passed=passed) as between:
            answer = ask(between.url, search, Setup(microbatches=2**number))
        assert answer.plan is not None
        with Client(service) as direct:
            job, *before = direct.jobs()
        assert len(before) == number
        assert job["plan"] == answer.plan.id
        assert places_of(between) == [f"/v1/jobs/{job['id']}"] * 3
        keys = {sent.key for sent in between.sent}
        assert len(keys) == 1
        assert (None in keys) == (search == "cached")


def test_a_measurement_whose_answer_was_lost_is_asked_for_once(service: str) -> None:
    assert httpx.post(f"{service}/v1/agents", json=AGENT).status_code == 201
    with (
        cutting(service, cuts=1, passed=0.0) as between,
        Client(between.url) as client,
        Client(service) as direct,
        ThreadPoolExecutor(1) as pool,
    ):
        asked = pool.submit(client.measure, Measure())
        until(lambda: len(between.sent) == 2)
        (job,) = direct.jobs()
        direct.cancel(job["id"])
        with pytest.raises(SearchCancelled):
            asked.result(timeout=120)
    assert places_of(between) == [f"/v1/jobs/{job['id']}"] * 2


def places_of(between: Cutting) -> list[str | None]:
    """Of the jobs that the service named, in its answers to POSTs."""
    return [sent.location for sent in between.sent]
