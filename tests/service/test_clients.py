"""Both clients at a real service that is restarted while they follow a search."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from meshwright.client import AsyncClient, Client
from meshwright.schema import Answer, Graph, Progress, Topology
from tests.service.conftest import ROOT, server
from tests.service.samples import GRAPH, TOPOLOGY

Follow = Callable[[str, Callable[[Progress], None]], Answer]
ASKED = Graph.from_dict(GRAPH), Topology.from_dict(TOPOLOGY)


class Restarted:
    """A service whose planner searches until it is stopped; restarted on the same port."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._stack = ExitStack()
        self._port = "0"
        self.url = self._start()

    def again(self) -> None:
        self._stack.close()
        assert self._start() == self.url

    def close(self) -> None:
        self._stack.close()

    def _start(self) -> str:
        own = server(self._data, planner="tests.service.planners:improving", port=self._port)
        url, _ = self._stack.enter_context(own)
        self._port = url.rpartition(":")[2]
        return url


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Restarted]:
    made = Restarted(tmp_path)
    yield made
    made.close()


def blocking(url: str, on_progress: Callable[[Progress], None]) -> Answer:
    with Client(url) as client:
        return client.plan(*ASKED, on_progress=on_progress)


def awaiting(url: str, on_progress: Callable[[Progress], None]) -> Answer:
    async def asked() -> Answer:
        async with AsyncClient(url) as client:
            answer = await client.plan(*ASKED, on_progress=on_progress)
            (entry,) = [own async for own in client.plans()]
            assert answer.plan is not None
            assert entry["id"] == answer.plan.id
            return answer

    return asyncio.run(asked())


@pytest.mark.parametrize("follow", [blocking, awaiting])
def test_a_search_is_followed_over_a_restart_to_its_plan(
    service: Restarted, follow: Follow
) -> None:
    searches: list[str] = []

    def told(progress: Progress) -> None:
        if not progress.phase.startswith("pid ") or progress.phase in searches:
            return
        searches.append(progress.phase)
        if len(searches) == 1:
            service.again()
        else:
            with Client(service.url) as other:
                (job,) = other.jobs(state="running")
                other.cancel(job["id"])

    answer = follow(service.url, told)
    assert len(searches) == 2
    assert answer.plan is not None
    assert answer.ended_early
    with Client(service.url) as client:
        (job,) = client.jobs()
        assert (job["attempt"], job["plan"]) == (2, answer.plan.id)


def test_the_example_of_the_docs_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "reference" / "clients.md").read_text(encoding="utf-8")
    _, _, code = text.partition("```python\n")
    with server(tmp_path) as (url, _):
        with Client(url) as client:
            found = client.plan(*ASKED).plan
        assert found is not None
        exec(code.partition("```")[0].replace("http://127.0.0.1:8780", url), {})
    assert capsys.readouterr().out == f"{ASKED[0].name} {found.id}\n"
