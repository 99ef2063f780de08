"""Whom a request speaks for: by its key, or, in a store without keys, by being on this machine.

What was found is remembered for KEPT_S: so long, in each process, a key may work after it was
revoked or expired, and a store may be served without keys after its first one was made elsewhere.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable

from meshwright.schema import Unauthorized
from service.keys import MARK, Keys
from service.principals import ANYBODY, Principal

KEPT_S = 5.0  # chosen: docs/service.md says it
KEPT = 4096  # principals; chosen: more keys than that at one time are looked up again
MAX_SECRET = 200  # characters


class Authentication:
    """Finds principals. Safe to share between threads.

    clock: seconds that only ever grow.
    """

    def __init__(self, keys: Keys, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[bytes, tuple[float, Principal]] = {}
        self._open_until = 0.0

    def remembered(self, secret: str | None) -> Principal | None:
        """The principal where it is known without asking the database."""
        now = self._clock()
        with self._lock:
            if now < self._open_until:
                return ANYBODY
            kept = None if secret is None else self._known.get(_name(secret))
        return kept[1] if kept is not None and now < kept[0] else None

    def find(self, secret: str | None) -> Principal:
        """The principal by the database; raises Unauthorized."""
        asked = self._clock()  # what changes while it answers counts from before
        if not self._keys.any():
            with self._lock:
                self._open_until = asked + KEPT_S
            return ANYBODY
        if secret is None:
            raise Unauthorized("this service asks for a key: Authorization: Bearer mw_…")
        found = self._keys.principal(secret)
        with self._lock:
            if len(self._known) >= KEPT:
                self._known.clear()
            self._known[_name(secret)] = (asked + KEPT_S, found)
        return found

    def forget(self) -> None:
        """Ask the database from now on: keys changed in this process."""
        with self._lock:
            self._known.clear()
            self._open_until = 0.0


def secret_of(authorization: list[str]) -> str | None:
    """The secret in a request's Authorization headers; raises Unauthorized of anything else."""
    if not authorization:
        return None
    scheme, _, secret = authorization[0].partition(" ")
    secret = secret.strip()
    is_key = secret.startswith(MARK) and secret.isascii() and len(secret) <= MAX_SECRET
    if len(authorization) > 1 or scheme.lower() != "bearer" or not is_key:
        raise Unauthorized("the header Authorization has to be, once, Bearer mw_…")
    return secret


def _name(secret: str) -> bytes:
    # the secret itself stays in no table of this process
    return hashlib.sha256(secret.encode()).digest()
