"""The service as an agent sees it: who asks for measurements and keeps what comes of them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from meshwright.client import Call, Client, Endpoint, Exchange, asked, posted, segment
from meshwright.schema import InvalidInput, MeshwrightError, NotFound, Progress, Unavailable
from meshwright.schema.agent import Agent, Heartbeat, Measure, Results

PAUSE_S = 5.0  # between tries; chosen: a service that begins again takes less
IMPATIENT_S = 2.5  # of pauses within one call, as agents wait themselves; chosen
GIVE_UP_S = 60.0  # chosen: the other processes wait for the first one half of their patience


@dataclass(frozen=True, slots=True)
class Lease:
    """A measurement that is the agent's while the service hears of it."""

    measurement: str
    attempt: int
    asked: Measure


def register_agent(agent: Agent) -> Exchange[dict[str, Any]]:
    """Register an agent; its `id`, and after how many seconds a sign of life is due."""
    return (yield from posted("/v1/agents", agent.to_dict()))


def heartbeat(agent: str, sign: Heartbeat) -> Exchange[bool]:
    """Give a sign of life; whether what it measures is still the agent's."""
    path = f"/v1/agents/{segment(agent)}/heartbeat"
    return bool((yield from posted(path, sign.to_dict()))["holds"])


def lease(agent: str, *, wait_s: float) -> Exchange[dict[str, Any] | None]:
    """What there is to measure for an agent, within the time."""
    path = f"/v1/agents/{segment(agent)}/lease"
    found = yield from asked(Call("POST", path, {"wait": wait_s}, again="unreached"))
    return found.get("measurement")


def end_measurement(agent: str, measurement: str, results: Results) -> Exchange[dict[str, Any]]:
    """Hand in how a measurement ended; what is `stored` of it. The same twice is no harm."""
    path = f"/v1/agents/{segment(agent)}/measurements/{segment(measurement)}/results"
    return (yield from posted(path, results.to_dict()))


class AgentClient(Client):
    """A client of the service with what only agents ask."""

    register_agent = Endpoint(register_agent)
    heartbeat = Endpoint(heartbeat)
    lease = Endpoint(lease)
    end_measurement = Endpoint(end_measurement)

    def pause(self, seconds: float) -> None:
        """Let the service be for a while."""
        self._sleep(seconds)


class Asker:
    """One agent's side of a service; reconnects, and registers again where it was forgotten."""

    def __init__(self, client: AgentClient, agent: Agent) -> None:
        self._client = client
        self._agent = agent
        self.heartbeat_s = self._register()

    def wait(self, seconds: float) -> Lease | None:
        """The next measurement; None where there is none within the time, or no answer."""
        try:
            found = self._client.lease(self._agent.id, wait_s=seconds)
        except NotFound:
            self.heartbeat_s = self._register()
            return None
        except Unavailable:
            self._client.pause(PAUSE_S)
            return None
        if found is None:
            return None
        return Lease(found["id"], found["attempt"], Measure.from_dict(found["asked"]))

    def end(self, lease: Lease, results: Results) -> dict[str, Any] | None:
        """What came of results; None where the measurement is not the agent's any more.

        Raises InvalidInput where they are refused, Unavailable where no answer comes for long.
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
    """Signs of life beside a measurement, from a thread of its own while it is entered.

    Call it to ask whether the measurement is to end: somebody else has it, or it was cancelled. A
    service that does not answer may be back in time: then it goes on.
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
        """What the next sign says of the measurement."""
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
                except MeshwrightError:  # forgotten, or another's by now
                    holds = False
                if not holds:
                    self._lost.set()
                    return
