"""Deadlines: the end of a time budget. Searches read a clock in this module only.

A caller can end the search earlier: `stop` returns True from then on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

Stop = Callable[[], bool]


def never() -> bool:
    """Stop callback that never stops."""
    return False


_stop_here: ContextVar[Stop] = ContextVar("stop_here", default=never)


@contextmanager
def stopped_by(stop: Stop) -> Iterator[None]:
    """Context in which deadlines received from another process use this stop callback."""
    token = _stop_here.set(stop)
    try:
        yield
    finally:
        _stop_here.reset(token)


class OutOfTime(Exception):
    """The time budget ended inside a step. Results from before the step remain valid."""


@dataclass(frozen=True, slots=True)
class Deadline:
    ends: float
    stop: Stop = never

    @staticmethod
    def after(seconds: float | None, stop: Stop = never) -> Deadline:
        return Deadline(math.inf if seconds is None else time.monotonic() + seconds, stop)

    @staticmethod
    def at(ends: float | None) -> Deadline:
        """Deadline from the result of `on_every_clock`, with the stop callback of the current
        context."""
        return Deadline.after(None if ends is None else ends - time.time(), _stop_here.get())

    def on_every_clock(self) -> float | None:
        """End in seconds since 1970, for another process; None without an end. `stop` is not
        included."""
        remaining_s = self.left_s()
        return None if remaining_s is None else time.time() + remaining_s

    def check(self) -> None:
        if self.is_over():
            raise OutOfTime

    def is_over(self) -> bool:
        return time.monotonic() >= self.ends or self.stop()

    def left_s(self) -> float | None:
        """Remaining seconds; None without an end."""
        if self.stop():
            return 0.0
        return None if self.ends == math.inf else max(0.0, self.ends - time.monotonic())


ENDLESS = Deadline(math.inf)
