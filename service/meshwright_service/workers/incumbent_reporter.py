"""Incumbent plans: a search sends its best plan so far to the worker at a limited rate."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf

from meshwright.common.stop_signal import StopSignal
from meshwright.reports.plan_figures import figures_of
from meshwright.reports.plan_warnings import request_warnings
from meshwright.schema import Answer, Request
from meshwright_service.processes.child_main import ParentMessages
from meshwright_service.store.encoded_documents import stored_plan

LEAST_S = 2.0  # minimum interval; chosen: each plan is one transaction of the store
SHARE = 1 / 30  # maximum share of the search time that making and sending may take; chosen


class IncumbentReporter:
    """Callback of a search that sends its incumbent plan to the worker.

    A call takes the request and a function that makes the answer. The reporter calls it when a
    report is due, and sends the plan if it is faster than the last one sent. The first report is
    due after `after_s`. Reports end when the search is stopped or runs out of memory for another
    plan.
    """

    def __init__(
        self,
        messages: ParentMessages,
        stop: StopSignal,
        after_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._messages = messages
        self._stop = stop
        self._clock = clock
        self._next = clock() + after_s
        self._best_ns = inf

    def __call__(self, request: Request, make: Callable[[], Answer | None]) -> None:
        started_s = self._clock()
        if started_s < self._next or self._stop.asked:
            return
        try:
            self._send(request, make())
        except MemoryError:
            self._next = inf
            return
        ended_s = self._clock()
        self._next = ended_s + max(LEAST_S, (ended_s - started_s) / SHARE)

    def _send(self, request: Request, answer: Answer | None) -> None:
        if answer is None or answer.plan is None or answer.plan.cost.step_ns >= self._best_ns:
            return
        warnings = request_warnings(answer.plan, request)
        figures = figures_of(answer.plan, request)
        sent = stored_plan(answer.plan, None, warnings, figures, request.setup).to_message()
        self._messages.write({"kept": sent, "seconds": answer.seconds})
        self._best_ns = answer.plan.cost.step_ns
