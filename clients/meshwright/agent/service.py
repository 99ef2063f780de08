"""Service client of an agent: registration, leases, heartbeats and results."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from meshwright.client import ApiCall, Client, Endpoint, Exchange, asked, posted, segment
from meshwright.schema import InvalidInput, MeshwrightError, NotFound, Progress, Unavailable
from meshwright.schema.agent import Agent, Heartbeat, Measure, Results

PAUSE_S = 5.0  # chosen: between attempts, longer than a restart of the service
IMPATIENT_S = 2.5  # chosen: total pauses within one call, because agents retry
GIVE_UP_S = 60.0  # chosen: half the time that the other ranks wait for rank 0


@dataclass(frozen=True, slots=True)
class Lease:
    """A measurement leased to an agent; heartbeats extend the lease."""

    measurement: str
    attempt: int
    asked: Measure


def register_agent(agent: Agent) -> Exchange[dict[str, Any]]:
    """Register an agent; returns its `id` and the heartbeat interval in seconds."""
    return (yield from posted("/v1/agents", agent.to_dict()))


def heartbeat(agent: str, sign: Heartbeat) -> Exchange[bool]:
    """Send a heartbeat; returns whether the agent still holds its lease."""
    path = f"/v1/agents/{segment(agent)}/heartbeat"
    return bool((yield from posted(path, sign.to_dict()))["holds"])


def lease(agent: str, *, wait_s: float) -> Exchange[dict[str, Any] | None]:
    """Lease a measurement, waiting up to `wait_s` seconds; None where there is none."""
    path = f"/v1/agents/{segment(agent)}/lease"
    answer = yield from asked(ApiCall("POST", path, {"wait": wait_s}, again="unreached"))
    return answer.get("measurement")


def end_measurement(agent: str, measurement: str, results: Results) -> Exchange[dict[str, Any]]:
    """Report the results of a measurement; returns the stored documents. Idempotent."""
    path = f"/v1/agents/{segment(agent)}/measurements/{segment(measurement)}/results"
    return (yield from posted(path, results.to_dict()))


class AgentClient(Client):
    """A client of the service with the agent endpoints."""

    register_agent = Endpoint(register_agent)
    heartbeat = Endpoint(heartbeat)
    lease = Endpoint(lease)
    end_measurement = Endpoint(end_measurement)

    def pause(self, seconds: float) -> None:
        """Wait before the next attempt."""
        self._sleep(seconds)


class Asker:
    """Session of one agent; reconnects, and registers again after the service forgets it."""

    def __init__(self, client: AgentClient, agent: Agent) -> None:
        self._client = client
        self._agent = agent
        self.heartbeat_s = self._register()

    def wait(self, seconds: float) -> Lease | None:
        """The next lease; None after `seconds` without one, or without an answer."""
        try:
            measurement = self._client.lease(self._agent.id, wait_s=seconds)
        except NotFound:
            self.heartbeat_s = self._register()
            return None
        except Unavailable:
            self._client.pause(PAUSE_S)
            return None
        if measurement is None:
            return None
        return Lease(
            measurement["id"], measurement["attempt"], Measure.from_dict(measurement["asked"])
        )

    def end(self, lease: Lease, results: Results) -> dict[str, Any] | None:
        """Report results; returns the stored documents, or None after the lease is lost.

        Raises InvalidInput for refused results, and Unavailable after GIVE_UP_S without an answer.
        """
        begun = time.monotonic()
        while True:
            try:
                return self._client.end_measurement(self._agent.id, lease.measurement, results)
            except Unavailable:
                if time.monotonic() - begun > GIVE_UP_S:
                    raise
                self._client.pause(PAUSE_S)
            except (InvalidInput, NotFound):
                raise
            except MeshwrightError as refused:
                if refused.slug != "lease-lost":
                    raise
                return None

    def _register(self) -> float:
        return float(self._client.register_agent(self._agent)["heartbeat_s"])


class Heart:
    """Heartbeats during a measurement, sent from a thread while the context is entered.

    A call returns whether the measurement must end, because it is canceled or leased to another
    agent. A service that does not answer does not end the measurement.
    """

    def __init__(self, url: str, agent: Agent, lease: Lease, every_s: float) -> None:
        self._url = url
        self._agent = agent
        self._lease = lease
        self._every_s = every_s
        self._progress: Progress | None = None
        self._lost = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Heart:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def __call__(self) -> bool:
        return self._lost.is_set()

    def report(self, progress: Progress) -> None:
        """Set the progress of the next heartbeat."""
        self._progress = progress

    def _beat(self) -> None:
        with AgentClient(self._url, timeout_s=self._every_s, patience_s=IMPATIENT_S) as client:
            while not self._done.wait(self._every_s):
                sign = Heartbeat(
                    measurement=self._lease.measurement,
                    attempt=self._lease.attempt,
                    progress=self._progress,
                )
                try:
                    holds = client.heartbeat(self._agent.id, sign)
                except Unavailable:
                    continue
                except MeshwrightError:  # the agent is forgotten, or the lease lost
                    holds = False
                if not holds:
                    self._lost.set()
                    return
