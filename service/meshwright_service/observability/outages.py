"""Outages: consecutive failures of a loop, logged at their start, once a minute, and at their end.

Logging each failure of a fast loop would fill the disk.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LOG_INTERVAL_S = 60.0  # chosen: between two lines about one outage
LONGEST_S = 5.0  # chosen: the longest pause between two attempts
FIRST_S = 0.1  # chosen: the first pause; each pause is twice as long as the one before


class Outage:
    """The outage of one loop of one thread. what: the failure, "the worker cannot claim jobs"."""

    def __init__(
        self, log: logging.Logger, what: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._what = what
        self._clock = clock
        self._count = 0
        self._began = self._logged = 0.0

    def failed(self, error: Exception) -> float:
        """Count a failure and log it if due; return the seconds to wait before the next attempt."""
        now = self._clock()
        first = getattr(error, "orig", None) or error
        message = (str(first).splitlines() or [type(first).__name__])[0]
        if not self._count:
            self._began = self._logged = now
            self._log.error("%s: %s; it tries again", self._what, message)
        elif now >= self._logged + LOG_INTERVAL_S:
            self._logged = now
            self._log.error(
                "%s for %.0f s, in %d tries: %s",
                self._what,
                now - self._began,
                self._count,
                message,
            )
        pause_s = min(LONGEST_S, FIRST_S * 2.0 ** min(self._count, 20))
        self._count += 1
        return pause_s

    def ended(self) -> None:
        """Record a success; log the end of an outage."""
        if self._count:
            self._log.info(
                "over after %.0f s and %d tries: %s",
                self._clock() - self._began, self._count, self._what,
            )  # fmt: skip
        self._count = 0
