"""Retention thread: prunes the store periodically, beside the workers of a process."""

from __future__ import annotations

import logging
import threading

from meshwright_service.jobs.retention import Retention
from meshwright_service.observability.outages import Outage
from meshwright_service.observability.process_metrics import Metrics
from meshwright_service.store.database import AWAY

log = logging.getLogger(__name__)
LOOKS = 10  # chosen: checks in one period whether pruning is due


class Pruner:
    """The retention thread of one process; the store elects the process that prunes."""

    def __init__(self, retention: Retention, every_s: float, metrics: Metrics) -> None:
        self._retention = retention
        self._metrics = metrics
        self._look_s = every_s / LOOKS
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pruner", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def begin_to_stop(self) -> None:
        """Request the end of the thread after its current transaction."""
        self._stopping.set()

    def stop(self) -> None:
        """Stop the thread and wait for its end, at most 20 s."""
        self.begin_to_stop()
        if self._thread.is_alive():
            self._thread.join(timeout=20)

    def _run(self) -> None:
        outage = Outage(log, "the store could not be pruned")
        while not self._stopping.is_set():
            try:
                if self._retention.is_due():
                    gone = self._retention.prune(lambda: not self._stopping.is_set())
                    for what, count in gone.items():
                        self._metrics.pruned.labels(what).inc(count)
                outage.ended()
            except AWAY as failure:
                outage.failed(failure)
            except Exception:  # the outermost loop: the next round may succeed
                log.exception("the store could not be pruned")
            self._stopping.wait(timeout=self._look_s)
