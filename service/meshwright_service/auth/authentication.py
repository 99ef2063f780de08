"""Authentication: finds the principal of a request.

A request has credentials of one of `meshwright_service.auth.schemes`. A store without keys serves
any request.

Each process caches results for KEPT_S. For that time a revoked or expired key may still work, and a
store may be served without keys after another process made its first key.
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

KEPT_S = 5.0  # chosen; stated in docs/reference/service.md
KEPT = 4096  # cached principals; chosen: further keys are looked up again


class Authentication:
    """Finds principals, with a cache. Safe to share between threads.

    schemes: the accepted schemes. clock: a monotonic clock, in seconds.
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
        """The value of the WWW-Authenticate header: the challenges of all schemes."""
        return ", ".join(scheme.challenge for scheme in self.schemes)

    def credential(self, headers: Headers) -> Credential | None:
        """The credentials of a request, or None; raises Unauthorized if no scheme reads them."""
        for scheme in self.schemes:
            secret = scheme.secret(headers)
            if secret is not None:
                return Credential(scheme, secret)
        if "authorization" in headers:
            raise Unauthorized(
                "the Authorization header has an unsupported scheme. "
                f"Send the header {self._examples()}"
            )
        return None

    def remembered(self, credential: Credential | None) -> Principal | None:
        """The cached principal, or None; does not read the database."""
        now = self._clock()
        with self._lock:
            if now < self._open_until:
                return ANYBODY
            entry = None if credential is None else self._known.get(_name(credential))
        return entry[1] if entry is not None and now < entry[0] else None

    def find(self, credential: Credential | None) -> Principal:
        """The principal according to the database; raises Unauthorized."""
        asked_s = self._clock()  # before the query: a concurrent change shortens the entry's life
        if not self._keys.any():
            with self._lock:
                self._open_until = asked_s + KEPT_S
            return ANYBODY
        if credential is None:
            raise Unauthorized(f"this service asks for a key: {self._examples()}")
        principal = credential.scheme.principal(self._keys, credential.secret)
        with self._lock:
            if len(self._known) >= KEPT:
                self._known.clear()
            self._known[_name(credential)] = (asked_s + KEPT_S, principal)
        return principal

    def forget(self) -> None:
        """Clear the cache, after a change of keys in this process."""
        with self._lock:
            self._known.clear()
            self._open_until = 0.0

    def _examples(self) -> str:
        return " or ".join(scheme.example for scheme in self.schemes)


def _name(credential: Credential) -> bytes:
    # a digest: the cache holds no secret
    return hashlib.sha256(f"{credential.scheme.name} {credential.secret}".encode()).digest()
