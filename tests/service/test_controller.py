"""The example of a controller, at a real service that is killed while it searches, and later."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from examples.controller import Controller, Job, NoPlan
from meshwright.client import Client
from meshwright.schema import Graph, Setup, Unavailable
from tests.service.conftest import server
from tests.service.samples import GRAPH


class Killed:
    """A service with the real planner, killed and begun again on the same port."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._stack = ExitStack()
        self._port = "0"
        self.begin()

    def begin(self) -> None:
        own = server(self._data, planner="default", port=self._port)
        self.url, self._pid = self._stack.enter_context(own)
        self._port = self.url.rpartition(":")[2]

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        self._stack.close()

    def connect(self) -> Client:
        return Client(self.url, patience_s=20)


def test_a_job_outlives_its_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MESHWRIGHT_LEASE_S", "1")
    service = Killed(tmp_path)
    said: list[str] = []

    def hear(line: str) -> None:
        said.append(line)
        if len(said) == 1:  # the first step of the search
            service.kill()
            service.begin()

    job = Job(Graph.from_dict(GRAPH), "h100-1x4", Setup())
    folder = tmp_path / "kept"
    controller = Controller(job, service.connect, folder, hear)
    first = controller.begin()
    assert said  # so it was killed
    strategies = [controller.rank(rank, 4) for rank in range(4)]
    assert {own.plan for own in strategies} == {first}
    with service.connect() as client:
        (found,) = client.jobs()
        assert found["plan"] == first
    assert controller.measured(1e6, 10) is not None

    service.kill()
    again = Controller(job, service.connect, folder, said.append)
    assert again.begin() == first
    assert said[-1] == f"the service is away; going on with {first}"
    assert [again.rank(rank, 4) for rank in range(4)] == strategies
    assert again.measured(1e6, 10) is None
    with pytest.raises(NoPlan, match="the devices have changed, and the service is away"):
        again.lost_devices("h100-1x2", 100)
    with pytest.raises(NoPlan, match="no plan was kept"):
        Controller(job, service.connect, tmp_path / "empty", said.append).begin()

    service.begin()
    second = again.lost_devices("h100-1x2", 100)
    assert said[-1] == f"moved from {first} to {second}"
    assert again.rank(1, 2).plan == second
    with service.connect() as client:
        move = client.get_plan(second).move
        assert move is not None
        assert move.from_plan == first
    service.kill()
    with pytest.raises(Unavailable), service.connect() as client:
        client.get_plan(second)
    assert Controller(job, service.connect, folder, said.append).rank(1, 2).plan == second
