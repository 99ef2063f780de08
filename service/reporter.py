"""Progress on its way to the worker: no more often than is of use, and the newest for sure."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from meshwright.schema import Progress
from service.child_process import Messages

INTERVAL_S = 0.1  # between two reports of one phase; chosen


class Reporter:
    """Writes progress, of one phase at most every INTERVAL_S; what came between is written late.

    Call it from any thread while it is entered.
    """

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._lock = threading.Lock()
        self._phase = ""
        self._next = 0.0
        self._held_back: Progress | None = None
        self._timer: threading.Timer | None = None
        self._ended = False

    def __enter__(self) -> Reporter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._ended = True
            if self._timer is not None:
                self._timer.cancel()

    def __call__(self, progress: Progress) -> None:
        with self._lock:
            wait_s = self._next - time.monotonic()
            if progress.phase != self._phase or wait_s <= 0 or progress.done >= progress.total:
                self._write(progress)
                return
            self._held_back = progress
            if self._timer is None:
                self._timer = threading.Timer(wait_s, self._catch_up)
                self._timer.daemon = True
                self._timer.start()

    def _catch_up(self) -> None:
        with self._lock:
            self._timer = None
            if self._held_back is not None:
                self._write(self._held_back)

    def _write(self, progress: Progress) -> None:
        if self._ended:
            return
        self._phase, self._next = progress.phase, time.monotonic() + INTERVAL_S
        self._held_back = None
        self._messages.write({"progress": progress.model_dump(mode="json", exclude_none=True)})
