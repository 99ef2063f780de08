"""Failures of one kind in a row: logged when they begin, once a minute while they last, and when
they end. A loop that fails many times a second would fill a disk that is full already."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

SAID_S = 60.0  # chosen: between two lines about one outage
LONGEST_S = 5.0  # chosen: the longest pause between two tries
FIRST_S = 0.1  # chosen: the first pause; each one takes twice as long as the one before it


class Outage:
    """What a loop of one thread could not do lately. what: as in "the worker cannot claim jobs"."""

    def __init__(
        self, log: logging.Logger, what: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._what = what
        self._clock = clock
        self._count = 0
        self._began = self._said = 0.0

    def failed(self, error: Exception) -> float:
        """Count a failure and log it where that is due; the seconds to wait before the next try."""
        now = self._clock()
        first = getattr(error, "orig", None) or error
        said = (str(first).splitlines() or [type(first).__name__])[0]
        if not self._count:
            self._began = self._said = now
            self._log.error("%s: %s; it tries again", self._what, said)
        elif now >= self._said + SAID_S:
            self._said = now
            self._log.error(
                "%s for %.0f s, in %d tries: %s", self._what, now - self._began, self._count, said
            )
        pause_s = min(LONGEST_S, FIRST_S * 2.0 ** min(self._count, 20))
        self._count += 1
        return pause_s

    def ended(self) -> None:
        """It worked."""
        if self._count:
            self._log.info(
                "over after %.0f s and %d tries: %s",
                self._clock() - self._began, self._count, self._what,
            )  # fmt: skip
        self._count = 0
