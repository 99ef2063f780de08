"""Agents over gloo that a running service asks: worlds of 2, 4 and 8, and what kills them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from meshwright.client import Client, SearchCancelled
from meshwright.schema import Graph, MeshwrightError
from meshwright.schema.agent import Measure
from meshwright.schema.samples import Samples
from meshwright_service.common.errors import NoAgent
from tests.service.conftest import server, until
from tests.service.samples import GRAPH

SMALL: dict[str, Any] = {"largest": 256, "largest_bytes": 1024}
LONG: dict[str, Any] = {"seconds": 60, "largest": 512, "largest_bytes": 2**18}
PATIENCE_S = 90


@contextmanager
def agent(folder: Path, url: str, name: str, count: int) -> Iterator[subprocess.Popen[bytes]]:
    """One that serves with so many processes; nothing is left of it at the end."""
    command = [sys.executable, "-m", "meshwright.cli", "agent", "--serve", "--server", url]
    with (folder / f"{name}.said").open("w") as said:
        process = subprocess.Popen(
            [*command, "-o", str(folder / name), "--name", name, "--processes", str(count)],
            env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=said, stderr=said,
            start_new_session=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(timeout=120)
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """All processes of an agent at once."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=120)


def ranks(process: subprocess.Popen[bytes]) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(own) for own in children.split()]


def entry(client: Client, name: str) -> dict[str, Any]:
    """The agent of this name, once it is registered."""

    def found() -> Any:
        return next((own for own in client.agents() if own["agent"]["name"] == name), None)

    return dict(until(found, seconds=PATIENCE_S))


def under_way(client: Client, worker: str) -> str:
    """The measurement that an agent has, once it is seen to advance."""

    def found() -> Any:
        running = (own for own in client.jobs(state="running") if own.get("worker") == worker)
        return next((own["id"] for own in running if own.get("progress")), None)

    return str(until(found, seconds=PATIENCE_S))


class Asked:
    """Somebody who waits for a measurement meanwhile."""

    def __init__(self, url: str, measure: Measure) -> None:
        self.job: dict[str, Any] = {}
        self.error: MeshwrightError | None = None
        self._thread = threading.Thread(target=self._ask, args=(url, measure))
        self._thread.start()

    def wait(self) -> dict[str, Any]:
        self._thread.join(timeout=PATIENCE_S)
        assert not self._thread.is_alive()
        return self.job

    def _ask(self, url: str, measure: Measure) -> None:
        with Client(url, timeout_s=PATIENCE_S) as client:
            try:
                self.job = client.measure(measure)
            except MeshwrightError as error:
                self.error = error


@pytest.mark.parametrize("counts", [(2, 4), pytest.param((8,), marks=pytest.mark.long)])
def test_worlds_of_several_sizes_measure_when_asked(
    tmp_path: Path, counts: tuple[int, ...]
) -> None:
    with server(tmp_path, planner="default") as (url, _), Client(url) as client:
        for count in counts:
            name = f"of {count}"
            with agent(tmp_path, url, name, count):
                own = entry(client, name)
                assert own["agent"]["devices"] == count
                job = client.measure(Measure(agent=own["id"], seconds=2, **SMALL))
                assert job["worker"] == own["id"]
                assert job["progress"]["done"] == job["progress"]["total"] > 0
                if count == 2:  # the same processes again, by backend
                    again = client.measure(Measure(backend="gloo", seconds=1, **SMALL))
                    assert again["worker"] == own["id"]
                    assert again["samples"] != job["samples"]
            left = list((tmp_path / name).iterdir())
            assert f"{job['id']}.json" in [path.name for path in left]
            assert not [path for path in left if path.name.endswith(".partial")]
            samples = Samples.from_json((tmp_path / name / f"{job['id']}.json").read_bytes())
            assert samples.id == job["samples"]
            assert samples.topology.device_count == count
            calibration = client.get_calibration(job["calibration"])
            assert calibration.fitted is not None
            assert calibration.fitted.samples == job["samples"]
            answer = client.plan(
                Graph.from_dict(GRAPH), job["topology"], calibration=job["calibration"]
            )
            assert answer.plan is not None
            assert answer.plan.calibration == job["calibration"]
            assert client.get_topology(answer.plan.topology).device_count == count


def test_another_agent_takes_over_from_one_that_is_killed_or_wakes_up_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MESHWRIGHT_LEASE_S", "2")
    long = Measure(backend="gloo", **LONG)
    with (
        server(tmp_path) as (url, _),
        Client(url) as client,
        agent(tmp_path, url, "late", 2) as late,
    ):
        first = entry(client, "late")["id"]
        asked = Asked(url, long)
        job = under_way(client, first)
        os.killpg(late.pid, signal.SIGSTOP)  # as a machine that hangs
        with agent(tmp_path, url, "killed", 2) as killed:
            second = entry(client, "killed")["id"]
            assert under_way(client, second) == job
            kill(killed)
        with agent(tmp_path, url, "third", 2):
            third = entry(client, "third")["id"]
            under_way(client, third)
            os.killpg(late.pid, signal.SIGCONT)
            ended = asked.wait()
            assert asked.error is None
            assert (ended["id"], ended["worker"], ended["attempt"]) == (job, third, 3)
            until(lambda: "not ours any more" in (tmp_path / "late.said").read_text())
        (stored,) = client.samples()
        assert stored["id"] == ended["samples"]
        assert len(list(client.calibrations())) == 1
        again = client.measure(Measure(agent=first, seconds=1, **SMALL))  # it is well again
        assert again["worker"] == first


def test_a_measurement_whose_process_is_killed_ends_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MESHWRIGHT_AGENT_SILENT_S", "5")
    with server(tmp_path) as (url, _), Client(url) as client:
        with agent(tmp_path, url, "a", 2) as one:
            own = entry(client, "a")["id"]
            asked = Asked(url, Measure(agent=own, **LONG))
            under_way(client, own)
            os.kill(ranks(one)[-1], signal.SIGKILL)
            assert one.wait(timeout=PATIENCE_S) == 3
            asked.wait()
        assert isinstance(asked.error, NoAgent)
        assert "the last failure: a process of the agent is gone" in asked.error.detail
        assert "process 1 of 2 ended with status -9: killed" in " ".join(
            (tmp_path / "a.said").read_text().split()
        )
        assert list(client.samples()) == list(client.calibrations()) == []
        assert entry(client, "a")["state"] == "silent"


def test_an_agent_leaves_what_is_cancelled_and_gives_back_what_it_cannot_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MESHWRIGHT_LEASE_S", "5")  # and so signs of life every second
    with server(tmp_path) as (url, _), Client(url) as client:
        with agent(tmp_path, url, "a", 2) as one:
            own = entry(client, "a")["id"]
            cancelled = Asked(url, Measure(agent=own, **LONG))
            client.cancel(under_way(client, own))
            cancelled.wait()
            assert isinstance(cancelled.error, SearchCancelled)
            until(lambda: "not ours any more" in (tmp_path / "a.said").read_text())
            asked = Asked(url, Measure(agent=own, **LONG))
            job = under_way(client, own)
            one.terminate()
            one.wait(timeout=120)
            until(lambda: [own["id"] for own in client.jobs(state="queued")] == [job])
        with agent(tmp_path, url, "a", 2):  # begun again it is the same, and goes on
            ended = asked.wait()
        assert asked.error is None
        assert (ended["worker"], ended["attempt"]) == (own, 2)
        assert [entry["id"] for entry in client.samples()] == [ended["samples"]]
