"""When a request is sent once more, and after which pause: a decision of values alone."""

from __future__ import annotations

from random import Random

import httpx

from meshwright.client.exchange import AWAY, ApiCall

FIRST_S = (
    0.1,
    0.4,
    1.6,
)  # pauses where a service never answered: it may not be there at all; chosen
LONGEST_S = 5.0  # of one pause; chosen
JITTER = 0.5  # of a pause at most, so that clients of one service do not come back at once; chosen
TOO_MANY = 429


class CallRetries:
    """The tries of one call.

    patience_s: of pauses in all, once the service has answered anything: then it is being
    restarted, or its queue is full.
    """

    def __init__(self, call: ApiCall, patience_s: float, random: Random) -> None:
        self._call = call
        self._patience_s = patience_s
        self._random = random
        self._done = 0
        self._waited_s = 0.0

    def pause_s(
        self, outcome: httpx.Response | httpx.TransportError, *, is_known: bool
    ) -> float | None:
        """How long to wait before the next try; None where this outcome counts.

        is_known: the service has answered before.
        """
        if not self._may_be_sent_again(outcome):
            return None
        number, self._done = self._done, self._done + 1
        if not is_known and number >= len(FIRST_S):
            return None
        pause_s = _asked_s(outcome)
        if pause_s is None:
            usual_s = FIRST_S[number] if number < len(FIRST_S) else LONGEST_S
            pause_s = usual_s * (1 - JITTER * self._random.random())
        if self._waited_s + pause_s > self._patience_s:
            return None
        self._waited_s += pause_s
        return pause_s

    def _may_be_sent_again(self, outcome: httpx.Response | httpx.TransportError) -> bool:
        if isinstance(outcome, httpx.Response):
            if outcome.status_code == TOO_MANY:
                return True
            return outcome.status_code in AWAY and self._call.again != "unreached"
        if isinstance(outcome, httpx.UnsupportedProtocol):
            return False
        unsent = isinstance(outcome, httpx.ConnectError | httpx.ConnectTimeout)
        return unsent or self._call.again != "unreached"


def _asked_s(outcome: httpx.Response | httpx.TransportError) -> float | None:
    """What Retry-After asks for, in seconds; a date is passed over."""
    if isinstance(outcome, httpx.TransportError):
        return None
    asked = outcome.headers.get("retry-after", "")
    return float(asked) if asked.isascii() and asked.isdecimal() else None
