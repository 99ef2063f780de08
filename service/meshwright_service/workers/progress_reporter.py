"""Progress reports: a search sends its progress to the worker at a limited rate."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from meshwright.schema import Progress
from meshwright.schema.cost_graph import CostGraphProgress
from meshwright_service.processes.child_main import ParentMessages

INTERVAL_S = 0.1  # minimum interval of two reports of one phase; chosen


class Reporter:
    """Callback that writes progress, at most one report of a phase every INTERVAL_S.

    A report within the interval is held back and written at its end, unless a newer one replaces
    it. Any thread may call the reporter inside its `with` block.
    """

    def __init__(self, messages: ParentMessages) -> None:
        self._messages = messages
        self._lock = threading.Lock()
        self._phase = ""
        self._next = 0.0
        self._held_back: Progress | CostGraphProgress | None = None
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
        self._take(progress, progress.phase, is_last=progress.done >= progress.total)

    def of_cost_graph(self, step: CostGraphProgress) -> None:
        """Report the progress of a cost graph search; its engines count as phases."""
        self._take(step, step.engine, is_last=False)

    def _take(self, progress: Progress | CostGraphProgress, phase: str, *, is_last: bool) -> None:
        with self._lock:
            wait_s = self._next - time.monotonic()
            if phase != self._phase or wait_s <= 0 or is_last:
                self._phase = phase
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

    def _write(self, progress: Progress | CostGraphProgress) -> None:
        if self._ended:
            return
        self._next = time.monotonic() + INTERVAL_S
        self._held_back = None
        self._messages.write({"progress": progress.model_dump(mode="json", exclude_none=True)})
