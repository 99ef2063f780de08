"""The end of a time budget: the only place of the searches that reads a clock.

Who asks for an answer may also end the search before: `stop` says that he has.
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
    """A stop that nobody asks for."""
    return False


_stop_here: ContextVar[Stop] = ContextVar("stop_here", default=never)


@contextmanager
def stopped_by(stop: Stop) -> Iterator[None]:
    """Deadlines that come from another process meanwhile are over once `stop` says so here."""
    token = _stop_here.set(stop)
    try:
        yield
    finally:
        _stop_here.reset(token)


class OutOfTime(Exception):
    """The budget ended within a step; what was finished before it stands."""


@dataclass(frozen=True, slots=True)
class Deadline:
    ends: float
    stop: Stop = never

    @staticmethod
    def after(seconds: float | None, stop: Stop = never) -> Deadline:
        return Deadline(math.inf if seconds is None else time.monotonic() + seconds, stop)

    @staticmethod
    def at(ends: float | None) -> Deadline:
        """ends: as `on_every_clock` gives it. Its stop is that of the place it is now in."""
        return Deadline.after(None if ends is None else ends - time.time(), _stop_here.get())

    def on_every_clock(self) -> float | None:
        """For another process: seconds since 1970; its `stop` stays here."""
        remaining_s = self.left_s()
        return None if remaining_s is None else time.time() + remaining_s

    def check(self) -> None:
        if self.is_over():
            raise OutOfTime

    def is_over(self) -> bool:
        return time.monotonic() >= self.ends or self.stop()

    def left_s(self) -> float | None:
        """Seconds left, None where there is no end."""
        if self.stop():
            return 0.0
        return None if self.ends == math.inf else max(0.0, self.ends - time.monotonic())


ENDLESS = Deadline(math.inf)
