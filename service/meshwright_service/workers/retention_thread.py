"""Prunes the store from time to time, in a thread beside the workers of a process."""

from __future__ import annotations

import logging
import threading

from meshwright_service.jobs.retention import Retention
from meshwright_service.observability.outages import Outage
from meshwright_service.observability.process_metrics import Metrics
from meshwright_service.store.database import AWAY

log = logging.getLogger(__name__)
LOOKS = 10  # chosen: times in one period at which somebody asks whether it is due


class Pruner:
    """Of all the processes of a store one prunes at a time: whose turn it is, the store says."""

    def __init__(self, retention: Retention, every_s: float, metrics: Metrics) -> None:
        self._retention = retention
        self._metrics = metrics
        self._look_s = every_s / LOOKS
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pruner", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def begin_to_stop(self) -> None:
        """End after the transaction that runs."""
        self._stopping.set()

    def stop(self) -> None:
        """Stop, and wait until that is done."""
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
            except Exception:  # the outermost loop: the next round may find all well
                log.exception("the store could not be pruned")
            self._stopping.wait(timeout=self._look_s)
