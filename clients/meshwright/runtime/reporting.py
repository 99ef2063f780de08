"""What a training job measures of its plan, sent to the service beside the training.

A step takes from one call to the next, so that the optimizer and the loading of data count; the
median over many passes over what comes between them now and then: checkpoints, evaluation.
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

WARM_UP_STEPS = 3  # chosen: kernels are chosen and buffers made in the first ones
FIRST_STEPS, NEXT_STEPS = 10, 100  # chosen: short jobs report too, long ones seldom
PATIENCE_S = 5.0  # for an answer, and for the last report at the end; chosen
_LOG = logging.getLogger(__name__)


class StepClock:
    """Medians of step times. now: a clock in seconds."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._last: float | None = None
        self._left = WARM_UP_STEPS
        self._wanted = FIRST_STEPS
        self._times: list[float] = []

    def begin(self) -> tuple[float, int] | None:
        """A step begins; nanoseconds of one and of how many, where enough were measured."""
        now = self._now()
        last, self._last = self._last, now
        if last is None:
            return None
        if self._left:
            self._left -= 1
            return None
        self._times.append(now - last)
        if len(self._times) < self._wanted:
            return None
        found = statistics.median(self._times) * 1e9, len(self._times)
        self._times, self._wanted = [], NEXT_STEPS
        return found


class Reports:
    """Sends observations to a service from a thread, one at a time. What fails is logged once."""

    def __init__(self, server: str, connect: Callable[[str], Client] | None = None) -> None:
        self._server = server
        self._connect = connect or _impatient
        self._thread: threading.Thread | None = None
        self._has_failed = False

    def send(self, observation: Observation) -> None:
        """Send it soon; dropped where the one before is still on its way."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._send, args=(observation,), daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Give the last one a moment to arrive."""
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


def _impatient(url: str) -> Client:
    return Client(url, timeout_s=PATIENCE_S, patience_s=PATIENCE_S)
