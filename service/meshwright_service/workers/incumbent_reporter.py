"""Plans of a search that goes on, on their way to the worker: seldom enough to cost little."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf

from meshwright.common.stop_signal import StopSignal
from meshwright.schema import Answer
from meshwright_service.processes.child_main import ParentMessages
from meshwright_service.store.encoded_documents import stored_plan

LEAST_S = 2.0  # between two; chosen: each is a transaction of the store
SHARE = 1 / 30  # of the time, that making and writing them may take; chosen


class Keeper:
    """Called with what makes an answer: has it made where one is due, and sent where it is better.

    The first is due after so many seconds, and none once the search is asked to end. A search that
    has no memory left for another plan goes on without.
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

    def __call__(self, make: Callable[[], Answer | None]) -> None:
        begun = self._clock()
        if begun < self._next or self._stop.asked:
            return
        try:
            self._send(make())
        except MemoryError:
            self._next = inf
            return
        ended = self._clock()
        self._next = ended + max(LEAST_S, (ended - begun) / SHARE)

    def _send(self, answer: Answer | None) -> None:
        if answer is None or answer.plan is None or answer.plan.cost.step_ns >= self._best_ns:
            return
        sent = stored_plan(answer.plan).to_message()
        self._messages.write({"kept": sent, "seconds": answer.seconds})
        self._best_ns = answer.plan.cost.step_ns
