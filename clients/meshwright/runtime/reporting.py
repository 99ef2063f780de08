"""Step time reports: observations that a training job sends to the service.

A step lasts from one call to the next, so that it includes the optimizer and data loading. The
median excludes rare events such as checkpoints and evaluation.
"""

from __future__ import annotations

import logging
import statistics
import threading
import time
from collections.abc import Callable

from meshwright.client import Client
from meshwright.schema import MeshwrightError
from meshwright.schema.observation import Observation

WARM_UP_STEPS = 3  # chosen: the first steps select kernels and allocate buffers
FIRST_STEPS, NEXT_STEPS = 10, 100  # chosen: an early report for short jobs, then rare ones
PATIENCE_S = 5.0  # the timeout of a request, and of the last report; chosen
_LOG = logging.getLogger(__name__)


class StepClock:
    """A clock of median step times. `now` is a monotonic clock in seconds."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._last: float | None = None
        self._left = WARM_UP_STEPS
        self._count = FIRST_STEPS
        self._times: list[float] = []

    def begin(self) -> tuple[float, int] | None:
        """Record the start of a step.

        Returns the median step time in nanoseconds and the number of steps, if enough steps were
        measured since the last result.
        """
        now = self._now()
        last, self._last = self._last, now
        if last is None:
            return None
        if self._left:
            self._left -= 1
            return None
        self._times.append(now - last)
        if len(self._times) < self._count:
            return None
        median = statistics.median(self._times) * 1e9, len(self._times)
        self._times, self._count = [], NEXT_STEPS
        return median


class Reports:
    """A thread that sends observations to a service, one at a time. It logs the first failure."""

    def __init__(self, server: str, connect: Callable[[str], Client] | None = None) -> None:
        self._server = server
        self._connect = connect or _client
        self._thread: threading.Thread | None = None
        self._has_failed = False

    def send(self, observation: Observation) -> None:
        """Send an observation in the background; drop it if the previous one is still in flight."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._send, args=(observation,), daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Wait up to PATIENCE_S for the last observation."""
        if self._thread is not None:
            self._thread.join(PATIENCE_S)

    def _send(self, observation: Observation) -> None:
        try:
            with self._connect(self._server) as client:
                client.observe(observation)
        except MeshwrightError as why:
            if not self._has_failed:
                self._has_failed = True
                _LOG.warning("step times are not reported to %s: %s", self._server, why)


def _client(url: str) -> Client:
    return Client(url, timeout_s=PATIENCE_S, patience_s=PATIENCE_S)
