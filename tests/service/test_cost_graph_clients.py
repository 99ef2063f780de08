"""Clients and the command line that have a real service solve cost graphs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from meshwright.client import AsyncClient, Client
from meshwright.schema import InvalidInput, NotFound
from meshwright.schema.cost_graph import CostGraphProgress
from tests.clients.conftest import Run, run  # noqa: F401  a fixture
from tests.service.conftest import server
from tests.solver.cost_graph_files import CONTEST_EXAMPLE, TWO_NODES, file_of

EXAMPLE = file_of(CONTEST_EXAMPLE)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        solver = "tests.service.cost_graph_solvers:improving"
        patch.setenv("MESHWRIGHT_COST_GRAPH_SOLVER", solver)
        with server(tmp_path_factory.mktemp("data"), planner="tests.service.planners:tiny") as (
            address,
            _,
        ):
            yield address


def test_a_client_follows_the_search_to_its_solution(url: str) -> None:
    steps: list[CostGraphProgress] = []
    with Client(url) as client:
        solution = client.solve(EXAMPLE, seconds=0.5, on_progress=steps.append)
        assert (solution.status, solution.name) == ("feasible", "example")
        assert steps[0].cost == 1000
        (entry,) = client.cost_graphs()
        assert client.get_cost_graph(entry["id"]) == EXAMPLE
        by_id = client.solve(entry["id"], seconds=0.5, seed=3)
        assert client.get_solution(by_id.id) == by_id
        assert [job["kind"] for job in client.jobs(kind="solution")] == ["solution"] * 2
        (job, _) = client.jobs(kind="solution")
        assert client.follow(job["id"])["solution"] == by_id.id
        client.delete_solution(by_id.id)
        with pytest.raises(NotFound):
            client.get_solution(by_id.id)


def test_an_awaiting_client_does_the_same(url: str) -> None:
    async def solved() -> str:
        async with AsyncClient(url) as client:
            return (await client.solve(EXAMPLE, seconds=0.5)).status

    assert asyncio.run(solved()) == "feasible"


def test_a_wrong_option_is_an_error_with_its_field(url: str) -> None:
    with Client(url) as client, pytest.raises(InvalidInput) as refused:
        client.solve(EXAMPLE, seconds=-1)
    assert refused.value.pointer == "/seconds"


def test_the_command_line_asks_a_server(url: str, run: Run, tmp_path: Path) -> None:  # noqa: F811
    file, output = tmp_path / "graph.json", tmp_path / "solution.json"
    file.write_text(json.dumps({"problem": TWO_NODES}))
    ran = run("solve", file, "--server", url, "--seconds", "0.5", "-o", output)
    assert ran.code == 0
    assert ran.out.startswith("status  feasible")
    assert json.loads(output.read_text())["choice"] == [0, 0]
