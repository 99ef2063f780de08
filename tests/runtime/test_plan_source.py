"""Where a plan comes from: the service, the disk, a file; and what is said when it does not fit."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from meshwright.client import Client
from meshwright.planfile import PlanFile
from meshwright.runtime import PlanSource, rank_strategy
from meshwright.schema import InvalidInput, Plan, PlanError, Unavailable
from meshwright_solver.planning.planner import plan
from tests.runtime.test_ranks import GRAPH, SETUP
from tests.solver.requests import toy_request
from tests.solver.small_graphs import topology


@pytest.fixture(scope="module")
def planned() -> Plan:
    found = plan(toy_request(graph=GRAPH, topology=topology(2), setup=SETUP)).plan
    assert found is not None
    return found


class Service:
    """A service over a transport; `asked` for which paths, and with which tags."""

    def __init__(self, planned: Plan) -> None:
        self.planned = planned
        self.is_down = False
        self.asked: list[tuple[str, str | None]] = []

    def connect(self, url: str) -> Client:
        transport = httpx.MockTransport(self._answer)
        return Client(url, transport=transport, sleep=lambda _: None)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if self.is_down:
            raise httpx.ConnectError("refused")
        tag = request.headers.get("if-none-match")
        self.asked.append((request.url.path, tag))
        if "/graphs/" in request.url.path:
            return httpx.Response(200, text=GRAPH.to_json())
        found = rank_strategy(self.planned, GRAPH, SETUP, 1)
        is_known = tag == f'"{found.id}"'
        return httpx.Response(304) if is_known else httpx.Response(200, text=found.to_json())


@pytest.fixture
def service(planned: Plan) -> Service:
    return Service(planned)


def source(service: Service, cache: Path, plan: str | Path | None = None) -> PlanSource:
    given = plan or f"http://service/v1/plans/{service.planned.id}"
    return PlanSource(given, cache=cache, connect=service.connect)


def test_a_restart_asks_by_digest_and_needs_no_service(service: Service, tmp_path: Path) -> None:
    first = source(service, tmp_path).of_rank(1, 2)
    again = source(service, tmp_path).of_rank(1, 2)
    assert [tag for path, tag in service.asked if "strategy" in path] == [
        None,
        f'"{first[0].id}"',
    ]
    assert sum("/graphs/" in path for path, _ in service.asked) == 1
    service.is_down = True
    assert source(service, tmp_path).of_rank(1, 2) == again == first


def test_what_is_damaged_on_disk_is_not_used(service: Service, tmp_path: Path) -> None:
    source(service, tmp_path).of_rank(1, 2)
    for kept in tmp_path.iterdir():
        kept.write_text(kept.read_text().replace('"mean"', '"sum"').replace('"w"', '"u"'))
    # what is there is still a document, but not the one of its digest
    source(service, tmp_path).of_rank(1, 2)
    assert [tag for _, tag in service.asked] == [None] * 4
    (tmp_path / f"{service.planned.id}.1.json").write_text("{")
    service.is_down = True
    with pytest.raises(Unavailable, match="no answer from http://service"):
        source(service, tmp_path).of_rank(1, 2)


def test_another_world_size_is_named(service: Service, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"the plan plan_\w+ is for 2 ranks, this job has 4"):
        source(service, tmp_path).of_rank(1, 4)


def test_a_file_works_without_a_service(planned: Plan, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    PlanFile(plan=planned, graph=GRAPH, setup=SETUP).write(file)
    strategy, graph = PlanSource(str(file)).of_rank(1, 2)
    assert (strategy, graph) == (rank_strategy(planned, GRAPH, SETUP, 1), GRAPH)
    PlanFile(plan=planned).write(file)
    with pytest.raises(PlanError, match="a plan without its graph and setup"):
        PlanSource(file).of_rank(1, 2)


def test_what_is_no_plan_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="neither a file nor a URL"):
        PlanSource("plan_0", cache=tmp_path).of_rank(0, 1)
    with pytest.raises(InvalidInput, match="is not the URL of a plan"):
        PlanSource("http://service/plan_0", cache=tmp_path).of_rank(0, 1)
