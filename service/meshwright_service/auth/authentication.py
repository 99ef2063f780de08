"""Whom a request speaks for: by its credentials, in one of the schemes of
`meshwright_service.auth.schemes`, or, in a store without keys, by being on this machine.

What was found is remembered for KEPT_S: so long, in each process, a key may work after it was
revoked or expired, and a store may be served without keys after its first one was made elsewhere.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence

from starlette.datastructures import Headers

from meshwright.schema import Unauthorized
from meshwright_service.auth.api_keys import Keys
from meshwright_service.auth.principals import ANYBODY, Principal
from meshwright_service.auth.schemes import SCHEMES, Credential, Scheme

KEPT_S = 5.0  # chosen: docs/service.md says it
KEPT = 4096  # principals; chosen: more keys than that at one time are looked up again


class Authentication:
    """Finds principals. Safe to share between threads.

    schemes: that requests may use. clock: seconds that only ever grow.
    """

    def __init__(
        self,
        keys: Keys,
        *,
        schemes: Sequence[Scheme] = SCHEMES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.schemes = tuple(schemes)
        self._keys = keys
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[bytes, tuple[float, Principal]] = {}
        self._open_until = 0.0

    @property
    def challenge(self) -> str:
        """The value of WWW-Authenticate: the challenges of all schemes."""
        return ", ".join(scheme.challenge for scheme in self.schemes)

    def credential(self, headers: Headers) -> Credential | None:
        """The credentials of a request; raises Unauthorized of those that no scheme reads."""
        for scheme in self.schemes:
            secret = scheme.secret(headers)
            if secret is not None:
                return Credential(scheme, secret)
        if "authorization" in headers:
            raise Unauthorized(f"no scheme of this service reads this; send {self._examples()}")
        return None

    def remembered(self, credential: Credential | None) -> Principal | None:
        """The principal where it is known without asking the database."""
        now = self._clock()
        with self._lock:
            if now < self._open_until:
                return ANYBODY
            kept = None if credential is None else self._known.get(_name(credential))
        return kept[1] if kept is not None and now < kept[0] else None

    def find(self, credential: Credential | None) -> Principal:
        """The principal by the database; raises Unauthorized."""
        asked = self._clock()  # what changes while it answers counts from before
        if not self._keys.any():
            with self._lock:
                self._open_until = asked + KEPT_S
            return ANYBODY
        if credential is None:
            raise Unauthorized(f"this service asks for a key: {self._examples()}")
        principal = credential.scheme.principal(self._keys, credential.secret)
        with self._lock:
            if len(self._known) >= KEPT:
                self._known.clear()
            self._known[_name(credential)] = (asked + KEPT_S, principal)
        return principal

    def forget(self) -> None:
        """Ask the database from now on: keys changed in this process."""
        with self._lock:
            self._known.clear()
            self._open_until = 0.0

    def _examples(self) -> str:
        return " or ".join(scheme.example for scheme in self.schemes)


def _name(credential: Credential) -> bytes:
    # the secret itself stays in no table of this process
    return hashlib.sha256(f"{credential.scheme.name} {credential.secret}".encode()).digest()
